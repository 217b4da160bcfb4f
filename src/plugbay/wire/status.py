"""gRPC status codes, translated once at the boundary."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

import grpc

from plugbay.errors import RpcFailed

_GO_NAMES: Final = {
    grpc.StatusCode.OK: "OK",
    grpc.StatusCode.CANCELLED: "Canceled",
}
_GO_TEXTS: Final = {"Deadline Exceeded": "context deadline exceeded"}
_BROKEN_OFF: Final = frozenset({"Socket closed", "Stream removed", "Stream removed (Socket closed)"})
"""What grpcio says, one version or the other, of a call whose connection the server has ended."""
_END_OF_CONNECTION: Final = ("Unavailable", "error reading from server: EOF")
_ANSWER_TOO_LARGE: Final = re.compile(
    r"(?:Stream removed \()?(?:CLIENT: )?Received message larger than max (\(\d+ vs\. \d+\))\)?"
)
_NOBODY_THERE: Final = re.compile(
    r"failed to connect to all addresses; last error: \w+: unix:(?P<path>.+): "
    r"(?:connect failed: addr: unix:(?P=path) error|connect): (?P<why>[^:]+?)(?: \(\d+\))?"
)


def go_name(code: grpc.StatusCode) -> str:
    """The code as Go prints it: ``DEADLINE_EXCEEDED`` is ``DeadlineExceeded``, ``CANCELLED`` is ``Canceled``."""
    return _GO_NAMES.get(code) or "".join(word.capitalize() for word in code.name.split("_"))


def translate(error: grpc.aio.AioRpcError) -> RpcFailed:
    """The error of a call we made, as one of ours. What is not the server's own text is Go's, if Go's is known."""
    detail = error.details() or ""
    if detail in _BROKEN_OFF:
        return RpcFailed(*_END_OF_CONNECTION)
    if sizes := _ANSWER_TOO_LARGE.fullmatch(detail):
        detail = f"grpc: received message larger than max {sizes[1]}"
    if nobody := _NOBODY_THERE.fullmatch(detail):
        dialing = f"dial unix {unquote(nobody['path'])}: connect: {nobody['why'].lower()}"
        detail = f'connection error: desc = "transport: Error while dialing: {dialing}"'
    return RpcFailed(go_name(error.code()), _GO_TEXTS.get(detail, detail))


def from_go_name(name: str) -> grpc.StatusCode:
    """The code that Go prints as ``name``; UNKNOWN for what is none."""
    return _BY_GO_NAME.get(name, grpc.StatusCode.UNKNOWN)


_BY_GO_NAME: Final = {go_name(code): code for code in grpc.StatusCode}
