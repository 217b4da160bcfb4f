"""gRPC status codes, translated once at the boundary."""

from __future__ import annotations

from typing import Final

import grpc

from plugbay.errors import RpcFailed

_GO_NAMES: Final = {
    grpc.StatusCode.OK: "OK",
    grpc.StatusCode.CANCELLED: "Canceled",
}
_GO_TEXTS: Final = {"Deadline Exceeded": "context deadline exceeded"}


def go_name(code: grpc.StatusCode) -> str:
    """The code as Go prints it: ``DEADLINE_EXCEEDED`` is ``DeadlineExceeded``, ``CANCELLED`` is ``Canceled``."""
    return _GO_NAMES.get(code) or "".join(word.capitalize() for word in code.name.split("_"))


def translate(error: grpc.aio.AioRpcError) -> RpcFailed:
    """The error of a call we made, as one of ours; for a deadline of ours with Go's text."""
    detail = error.details() or ""
    return RpcFailed(go_name(error.code()), _GO_TEXTS.get(detail, detail))


def from_go_name(name: str) -> grpc.StatusCode:
    """The code that Go prints as ``name``; UNKNOWN for what is none."""
    return _BY_GO_NAME.get(name, grpc.StatusCode.UNKNOWN)


_BY_GO_NAME: Final = {go_name(code): code for code in grpc.StatusCode}
