"""Every gRPC status code has Go's name, and comes back from it; what grpcio says by itself is in Go's words."""

from __future__ import annotations

import grpc
import pytest

from plugbay.wire.status import grpc_code, rpc_code, translate

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
    names = {code.value[0]: rpc_code(code).value for code in grpc.StatusCode}
    assert names == dict(enumerate(GO_NAMES))


@pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
def test_names_come_back(code: grpc.StatusCode) -> None:
    assert grpc_code(rpc_code(code)) is code


@pytest.mark.parametrize(
    ("code", "detail", "text"),
    [
        pytest.param(
            grpc.StatusCode.UNAVAILABLE,
            "Stream removed (Socket closed)",
            "rpc error: code = Unavailable desc = error reading from server: EOF",
            id="dead",
        ),
        pytest.param(
            grpc.StatusCode.UNAVAILABLE,
            "Socket closed",
            "rpc error: code = Unavailable desc = error reading from server: EOF",
            id="dead, grpcio 1.66",
        ),
        pytest.param(
            grpc.StatusCode.UNKNOWN,
            "Stream removed",
            "rpc error: code = Unavailable desc = error reading from server: EOF",
            id="dead, without a reason",
        ),
        pytest.param(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "Stream removed (CLIENT: Received message larger than max (5 vs. 4))",
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (5 vs. 4)",
            id="long answer",
        ),
        pytest.param(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "SERVER: Received message larger than max (5 vs. 4)",
            "rpc error: code = ResourceExhausted desc = SERVER: Received message larger than max (5 vs. 4)",
            id="long request, as the server says",
        ),
        pytest.param(
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: FAILED_PRECONDITION: unix:/a%20b: connect failed: "
            "addr: unix:/a%20b error: No such file or directory",
            'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
            'dial unix /a b: connect: no such file or directory"',
            id="nobody there",
        ),
        pytest.param(
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: UNKNOWN: unix:/a: connect: Connection refused (111)",
            'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
            'dial unix /a: connect: connection refused"',
            id="nobody there, grpcio 1.66",
        ),
        pytest.param(
            grpc.StatusCode.UNKNOWN, "no power", "rpc error: code = Unknown desc = no power", id="the server's own"
        ),
        pytest.param(grpc.StatusCode.INTERNAL, None, "rpc error: code = Internal desc = ", id="no text"),
    ],
)
def test_what_grpcio_says_by_itself_is_in_gos_words(code: grpc.StatusCode, detail: str | None, text: str) -> None:
    error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), detail)
    assert str(translate(error)) == text
