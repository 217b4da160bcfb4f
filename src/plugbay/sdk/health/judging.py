"""The health of a device by single verdicts: it changes both ways, and not at every twitch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.model.health import HEALTHY, Health, unhealthy, unknown
from plugbay.values import dataclass

NOT_CHECKED: Final = unknown("NotChecked", "no check has answered yet")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The opinion on one device.

    Attributes:
        against: how many verdicts in a row contradict ``health``.
    """

    health: Health = NOT_CHECKED
    against: int = 0


UNJUDGED: Final = Judgement()


def judge(before: Judgement, verdict: Health, *, fall: int, rise: int) -> Judgement:
    """The opinion after one more verdict.

    The first verdict counts at once. Between unhealthy and unknown nothing is delayed: neither is given out.
    """
    if before.health == NOT_CHECKED:
        return Judgement(verdict)
    if before.health.is_healthy == verdict.is_healthy:
        return Judgement(verdict)
    against = before.against + 1
    needed = fall if before.health.is_healthy else rise
    return Judgement(verdict) if against >= needed else Judgement(before.health, against)


def verdict_of(answer: object, place: str = "") -> Health:
    """Turn a check's answer about one device into health; authors return all kinds of things.

    Args:
        place: where the check is written, for the message.
    """
    match answer:
        case Health():
            return answer
        case True:
            return HEALTHY
        case False:
            return unhealthy("CheckFailed", "its health check says so")
        case None:
            return unknown("CheckUndecided", "its health check does not know")
        case _:
            return unknown("CheckInvalid", f"its health check gave {answer!r} instead of Health, bool or None{place}")


def verdicts_of(answer: object, ids: list[str], place: str = "") -> dict[str, Health]:
    """Turn a check's answer about all devices into health, for those that exist."""
    if not isinstance(answer, Mapping):
        problem = unknown("CheckInvalid", f"the health check gave {type(answer).__name__} instead of a mapping{place}")
        return dict.fromkeys(ids, problem)
    left_out = unknown("CheckUndecided", "its health check left it out")
    return {each: verdict_of(answer[each], place) if each in answer else left_out for each in ids}
