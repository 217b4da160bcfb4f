"""How calls fail that no status ended, as Go's gRPC tells it: users see these texts in events.

Source: grpc-go 1.81 ``internal/transport/http_util.go``, ``http2_client.go``, ``rpc_util.go``, ``stream.go``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.grpc.quoting import quoted
from plugbay.wire.http2.codes import ErrorCode

_OF_RESET: Final[Mapping[int, RpcCode]] = {
    ErrorCode.FLOW_CONTROL_ERROR: RpcCode.RESOURCE_EXHAUSTED,
    ErrorCode.REFUSED_STREAM: RpcCode.UNAVAILABLE,
    ErrorCode.CANCEL: RpcCode.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: RpcCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: RpcCode.PERMISSION_DENIED,
}
"""The others that HTTP/2 knows are INTERNAL."""
_OF_HTTP: Final[Mapping[bytes, RpcCode]] = {
    b"400": RpcCode.INTERNAL,
    b"401": RpcCode.UNAUTHENTICATED,
    b"403": RpcCode.PERMISSION_DENIED,
    b"404": RpcCode.UNIMPLEMENTED,
    b"429": RpcCode.UNAVAILABLE,
    b"502": RpcCode.UNAVAILABLE,
    b"503": RpcCode.UNAVAILABLE,
    b"504": RpcCode.UNAVAILABLE,
}


def closing() -> RpcFailed:
    """The failure of a call whose connection we close ourselves."""
    return RpcFailed(RpcCode.CANCELLED, "grpc: the client connection is closing")


def deadline_passed() -> RpcFailed:
    return RpcFailed(RpcCode.DEADLINE_EXCEEDED, "context deadline exceeded")


def not_connected_in_time() -> RpcFailed:
    text = "context deadline exceeded while waiting for connections to become ready"
    return RpcFailed(RpcCode.DEADLINE_EXCEEDED, text)


def not_dialed(path: Path, error: OSError) -> RpcFailed:
    why = f"dial unix {path}: connect: {os.strerror(error.errno or 0).lower()}"
    return not_connected(f'"transport: Error while dialing: {why}"')


def not_connected(why: str) -> RpcFailed:
    return RpcFailed(RpcCode.UNAVAILABLE, f"connection error: desc = {why}")


def connection_lost(reason: str) -> RpcFailed:
    return RpcFailed(RpcCode.UNAVAILABLE, reason)


def how_lost(error: Exception | None, *, is_within_frame: bool) -> str:
    """The way in which a connection was lost; None is the end of what the peer sent."""
    if error is None:
        return "unexpected EOF" if is_within_frame else "EOF"
    return os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)


def rules_broken(code: ErrorCode, reason: str) -> str:
    """The peer broke the rules of HTTP/2; Go tells the code only."""
    return f"connection error: {code.name} ({reason})"


def reading_failed(why: str) -> str:
    return f"error reading from server: {why}"


def after_goaway(reason: str, code: int, debug: bytes) -> str:
    """The reason of a lost connection on which the server had said that it goes away."""
    data = f", debug data: {quoted(debug)}" if debug else ""
    prior = f"code: {_name(code)}{data}"
    return f'closing transport due to: connection error: desc = "{reason}", received prior goaway: {prior}'


def reset(code: int) -> RpcFailed:
    """The failure of a call whose stream the server has reset."""
    status = _OF_RESET.get(code, RpcCode.INTERNAL) if _is_known(code) else RpcCode.UNKNOWN
    return RpcFailed(status, f"stream terminated by RST_STREAM with error code: {_name(code)}")


def malformed() -> RpcFailed:
    """The failure of a call whose stream was reset from here: the server broke the rules on it."""
    return RpcFailed(RpcCode.INTERNAL, "received invalid frame")


def draining() -> RpcFailed:
    """The failure of a call that a server left behind as it went away."""
    return RpcFailed(RpcCode.UNAVAILABLE, "the connection is draining")


def cut_off() -> RpcFailed:
    """The failure of a call whose last message is not all there, whatever its status says."""
    return RpcFailed(RpcCode.INTERNAL, "unexpected EOF")


def _is_known(code: int) -> bool:
    return code in ErrorCode._value2member_map_


def _name(code: int) -> str:
    return ErrorCode(code).name if _is_known(code) else f"unknown error code 0x{code:x}"


def no_answer() -> RpcFailed:
    text = "cardinality violation: received no response message from non-server-streaming RPC"
    return RpcFailed(RpcCode.INTERNAL, text)


def too_many_answers() -> RpcFailed:
    text = "cardinality violation: expected <EOF> for non server-streaming RPCs, but received another message"
    return RpcFailed(RpcCode.INTERNAL, text)


def no_trailers() -> RpcFailed:
    return RpcFailed(RpcCode.INTERNAL, "server closed the stream without sending trailers")


def not_grpc(headers: Mapping[bytes, bytes]) -> RpcFailed | None:
    """The failure that the first headers of an answer are; None if they are of gRPC, whatever the HTTP status."""
    kind = headers.get(b"content-type")
    if kind is not None and is_grpc(kind):
        return None
    from http import HTTPStatus  # imported here: the answers of servers of gRPC need no phrase

    status = headers.get(b":status", b"")
    number = int(status) if status.isdigit() else 0
    phrase = HTTPStatus(number).phrase if number in HTTPStatus._value2member_map_ else ""
    problem = "malformed header: missing HTTP content-type"
    if kind is not None:
        problem = f"transport: received unexpected content-type {quoted(kind)}"
    text = f"unexpected HTTP status code received from server: {number} ({phrase}); {problem}"
    return RpcFailed(_OF_HTTP.get(status, RpcCode.UNKNOWN), text)


def is_grpc(content_type: bytes) -> bool:
    return content_type == b"application/grpc" or content_type.startswith((b"application/grpc+", b"application/grpc;"))
