"""Every gRPC status code has Go's name, and comes back from it."""

from __future__ import annotations

import grpc
import pytest

from plugbay.wire.status import from_go_name, go_name

# Source: grpc-go ``codes/code_string.go``, in the order of the numbers.
GO_NAMES = (
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
)


def test_nothing_is_unmapped() -> None:
    names = {code.value[0]: go_name(code) for code in grpc.StatusCode}
    assert names == dict(enumerate(GO_NAMES))


@pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
def test_names_come_back(code: grpc.StatusCode) -> None:
    assert from_go_name(go_name(code)) is code


@pytest.mark.parametrize("name", ["", "unavailable", "UNAVAILABLE", "Code(42)"])
def test_other_names_are_unknown(name: str) -> None:
    assert from_go_name(name) is grpc.StatusCode.UNKNOWN
