"""gRPC status codes, translated once at the boundary."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import grpc

from plugbay.errors import RpcCode, RpcFailed

_GO_TEXTS: Final = {"Deadline Exceeded": "context deadline exceeded"}
_BROKEN_OFF: Final = frozenset({"Socket closed", "Stream removed", "Stream removed (Socket closed)"})
"""The messages of grpcio's versions for a call whose connection the server has ended."""
_END_OF_CONNECTION: Final = (RpcCode.UNAVAILABLE, "error reading from server: EOF")
_ANSWER_TOO_LARGE: Final = re.compile(
    r"(?:Stream removed \()?(?:CLIENT: )?Received message larger than max (\(\d+ vs\. \d+\))\)?"
)
_NOBODY_THERE: Final = re.compile(
    r"failed to connect to all addresses; last error: \w+: unix:(?P<path>.+): "
    r"(?:connect failed: addr: unix:(?P=path) error|connect): (?P<why>[^:]+?)(?: \(\d+\))?"
)


def rpc_code(code: grpc.StatusCode) -> RpcCode:
    return RpcCode[code.name]


def grpc_code(code: RpcCode) -> grpc.StatusCode:
    return grpc.StatusCode[code.name]


def translate(error: grpc.aio.AioRpcError) -> RpcFailed:
    """Translate the error of a call that we made. Known texts of grpcio become those of Go's gRPC."""
    detail = error.details() or ""
    if detail in _BROKEN_OFF:
        return RpcFailed(*_END_OF_CONNECTION)
    if sizes := _ANSWER_TOO_LARGE.fullmatch(detail):
        detail = f"grpc: received message larger than max {sizes[1]}"
    if nobody := _NOBODY_THERE.fullmatch(detail):
        dialing = f"dial unix {unquote(nobody['path'])}: connect: {nobody['why'].lower()}"
        detail = f'connection error: desc = "transport: Error while dialing: {dialing}"'
    return RpcFailed(rpc_code(error.code()), _GO_TEXTS.get(detail, detail))
