"""What a failed call says of its effect."""

from __future__ import annotations

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.manager.endpoint import may_have_happened


@pytest.mark.parametrize(
    ("code", "detail", "may_have"),
    [
        (RpcCode.DEADLINE_EXCEEDED, "context deadline exceeded", True),
        (RpcCode.UNAVAILABLE, "connection refused", True),
        (RpcCode.CANCELLED, "grpc: the client connection is closing", True),
        (RpcCode.INTERNAL, "grpc: failed to unmarshal the received message: x", True),
        (RpcCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (5 vs. 4)", True),
        (RpcCode.UNKNOWN, "OSError: no such device", False),
        (RpcCode.INTERNAL, "no power", False),
        (RpcCode.UNIMPLEMENTED, "unknown method Allocate", False),
    ],
)
def test_which_failed_calls_may_have_happened(code: RpcCode, detail: str, may_have: bool) -> None:
    assert may_have_happened(RpcFailed(code, detail)) is may_have
