"""Limits, retries and the table of answers for PostStopContainer and Deallocate: pure.

Source: spec 12.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.manager.operations import Operation

FIRST_BACK_OFF_S: Final = 0.5
MAX_BACK_OFF_S: Final = 122.0
"""A kubelet's usual one: 2 min 2 s."""


class Exhaustion(Enum):
    """What becomes of devices whose Deallocate was never confirmed."""

    FREE = "free"
    """They are given out again: the plugin had its chances."""
    QUARANTINE = "quarantine"
    """They stay out until the plugin registers again, or reports them unhealthy and then healthy."""


class Unconfirmed(Enum):
    """What becomes of a container's next start when its last PostStopContainer is not confirmed in time."""

    START = "start"
    """It starts; an event tells."""
    FAIL = "fail"
    """It fails and is tried again."""


@dataclass(frozen=True, slots=True)
class ReleaseLimits:
    """How long and how often plugins are told that a use has ended, and what if they do not confirm.

    Attributes:
        attempt_timeout_s: deadline of one call; that of PreStartContainer.
        wait_s: how long the next start of a container, or the end of a pod, waits for its calls, all together. 0 does
            not wait.
        max_age_s, max_attempts: a call that is not confirmed by then is given up.
        parallel: calls to one plugin at a time.
        on_exhaustion: what becomes of devices whose Deallocate was given up.
        on_unconfirmed: what becomes of a start whose PostStopContainer is late.
    """

    attempt_timeout_s: float = 30.0
    wait_s: float = 60.0
    max_age_s: float = 24 * 3600.0
    max_attempts: int = 1000
    parallel: int = 16
    on_exhaustion: Exhaustion = Exhaustion.FREE
    on_unconfirmed: Unconfirmed = Unconfirmed.START


DEFAULT_LIMITS: Final = ReleaseLimits()


class Verdict(Enum):
    """What an answer means for its operation."""

    DONE = "done"
    UNSUPPORTED = "unsupported"
    """The plugin has no such method, whatever its options say."""
    REFUSED = "refused"
    """It never will be done."""
    RETRY = "retry"


_VERDICTS: Final[Mapping[str, Verdict]] = {
    "OK": Verdict.DONE,
    "Unimplemented": Verdict.UNSUPPORTED,
    "InvalidArgument": Verdict.REFUSED,
    "NotFound": Verdict.REFUSED,
    "FailedPrecondition": Verdict.REFUSED,
    "PermissionDenied": Verdict.REFUSED,
    "OutOfRange": Verdict.REFUSED,
}


def verdict_of(code: str) -> Verdict:
    """What to make of a status code, by the name Go gives it; all that is not final is tried again."""
    return _VERDICTS.get(code, Verdict.RETRY)


def back_off_s(attempts: int) -> float:
    """How long to wait after so many failed attempts, at least one."""
    doublings = min(attempts - 1, 16)  # more would only overflow in the end
    return min(FIRST_BACK_OFF_S * 2.0**doublings, MAX_BACK_OFF_S)


def patience_s(operation: Operation, limits: ReleaseLimits, now: datetime) -> float:
    """Seconds from the moment at which the manager takes an operation up until it gives it up.

    The clock may have been set, or the machine been off, since the operation was due: it gets no more than its whole
    time, and no less than the time in which a plugin comes back and answers.
    """
    left_s = (operation.due + timedelta(seconds=limits.max_age_s) - now).total_seconds()
    return min(max(left_s, limits.wait_s), limits.max_age_s)


_UNKNOWN_OUTCOMES: Final = frozenset({"DeadlineExceeded", "Unavailable", "Canceled"})
_UNREADABLE: Final = ("grpc: failed to unmarshal the received message", "grpc: received message larger than max")
"""What we say of an answer that is no message, or too long a one: the plugin has done what it was asked."""


def may_have_happened(error: RpcFailed) -> bool:
    """Whether a call that failed so may have been carried out; a plugin's own refusal was not."""
    return error.code in _UNKNOWN_OUTCOMES or error.detail.startswith(_UNREADABLE)
