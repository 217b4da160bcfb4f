"""Limits and retries of PostStopContainer and Deallocate (spec 12.8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RpcFailed
from plugbay.manager.operations import Operation, OperationKind
from plugbay.manager.release_rules import (
    MAX_BACK_OFF_S,
    ReleaseLimits,
    Verdict,
    back_off_s,
    may_have_happened,
    patience_s,
    verdict_of,
)
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import OperationId
from plugbay.wire.status import go_name

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
    name = go_name(code)
    wanted = Verdict.RETRY
    if name in DONE:
        wanted = Verdict.DONE
    elif name in REFUSED:
        wanted = Verdict.REFUSED
    elif name == "Unimplemented":
        wanted = Verdict.UNSUPPORTED
    assert verdict_of(name) is wanted


def test_gaps_double_up_to_two_minutes() -> None:
    gaps = [back_off_s(attempts) for attempts in range(1, 12)]
    assert gaps == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]


@given(st.integers(1, 10_000))
def test_gaps_never_shrink_and_never_pass_the_limit(attempts: int) -> None:
    assert 0 < back_off_s(attempts) <= back_off_s(attempts + 1) <= MAX_BACK_OFF_S


@pytest.mark.parametrize(
    ("later_s", "left_s"),
    [(0, 100), (40, 60), (95, 10), (10**8, 10), (-1, 100), (-(10**8), 100)],
)
def test_patience_is_no_longer_and_no_shorter_than_makes_sense(later_s: int, left_s: float) -> None:
    limits = ReleaseLimits(max_age_s=100, wait_s=10)
    assert patience_s(operation(), limits, NOW + timedelta(seconds=later_s)) == left_s


@pytest.mark.parametrize(
    ("code", "detail", "may_have"),
    [
        ("DeadlineExceeded", "context deadline exceeded", True),
        ("Unavailable", "connection refused", True),
        ("Canceled", "grpc: the client connection is closing", True),
        ("Internal", "grpc: failed to unmarshal the received message: x", True),
        ("ResourceExhausted", "grpc: received message larger than max (5 vs. 4)", True),
        ("Unknown", "OSError: no such device", False),
        ("Internal", "no power", False),
        ("Unimplemented", "unknown method Allocate", False),
    ],
)
def test_which_failed_calls_may_have_happened(code: str, detail: str, may_have: bool) -> None:
    assert may_have_happened(RpcFailed(code, detail)) is may_have
