"""Limits and retries of PostStopContainer and Deallocate (spec 12.8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import grpc
import pytest

from plugbay.manager.config import ReleaseLimits
from plugbay.manager.release.queue import patience_s
from plugbay.manager.release.rules import ReleaseVerdict, verdict_of
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind
from plugbay.wire.status import rpc_code

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DONE = {"OK"}
REFUSED = {"InvalidArgument", "NotFound", "FailedPrecondition", "PermissionDenied", "OutOfRange"}


def operation(attempts: int = 0) -> Operation:
    devices = (DeviceId("a"),)
    return Operation(
        OperationId("1"),
        OperationKind.DEALLOCATE,
        ResourceName("example.com/r"),
        devices,
        PodUid("p"),
        NOW,
        attempts=attempts,
    )


@pytest.mark.parametrize("code", grpc.StatusCode, ids=lambda code: code.name)
def test_every_status_has_its_verdict(code: grpc.StatusCode) -> None:
    name = rpc_code(code).value
    wanted = ReleaseVerdict.RETRY
    if name in DONE:
        wanted = ReleaseVerdict.DONE
    elif name in REFUSED:
        wanted = ReleaseVerdict.REFUSED
    elif name == "Unimplemented":
        wanted = ReleaseVerdict.UNSUPPORTED
    assert verdict_of(rpc_code(code)) is wanted


@pytest.mark.parametrize(
    ("later_s", "left_s"),
    [(0, 100), (40, 60), (95, 10), (10**8, 10), (-1, 100), (-(10**8), 100)],
)
def test_patience_is_no_longer_and_no_shorter_than_makes_sense(later_s: int, left_s: float) -> None:
    limits = ReleaseLimits(max_age_s=100, wait_s=10)
    assert patience_s(operation(), limits, NOW + timedelta(seconds=later_s)) == left_s
