"""Limits and retries of PostStopContainer and Deallocate (spec 12.8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plugbay.errors import RpcCode
from plugbay.manager.config import ReleaseLimits
from plugbay.manager.release.queue import patience_s
from plugbay.manager.release.rules import ReleaseVerdict, verdict_of
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind

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


@pytest.mark.parametrize("code", RpcCode, ids=lambda code: code.name)
def test_every_status_has_its_verdict(code: RpcCode) -> None:
    wanted = ReleaseVerdict.RETRY
    if code.value in DONE:
        wanted = ReleaseVerdict.DONE
    elif code.value in REFUSED:
        wanted = ReleaseVerdict.REFUSED
    elif code is RpcCode.UNIMPLEMENTED:
        wanted = ReleaseVerdict.UNSUPPORTED
    assert verdict_of(code) is wanted


@pytest.mark.parametrize(
    ("later_s", "left_s"),
    [(0, 100), (40, 60), (95, 10), (10**8, 10), (-1, 100), (-(10**8), 100)],
)
def test_patience_is_no_longer_and_no_shorter_than_makes_sense(later_s: int, left_s: float) -> None:
    limits = ReleaseLimits(max_age_s=100, wait_s=10)
    assert patience_s(operation(), limits, NOW + timedelta(seconds=later_s)) == left_s
