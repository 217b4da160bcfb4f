"""Conditions in the status of objects. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plugbay.documents import Json
from plugbay.pods.status import timestamp
from plugbay.printers import v1


def condition(value: Json, kind: str) -> Json | None:
    """The condition of this type in the status of ``value``."""
    return find_condition(v1.objects(value, "status", "conditions"), kind)


def find_condition(conditions: Sequence[Json], kind: str) -> Json | None:
    return next((each for each in conditions if each.get("type") == kind), None)


def is_true(value: Json, kind: str) -> bool:
    return (condition(value, kind) or {}).get("status") == "True"


def without_condition(conditions: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in conditions if each.get("type") != kind]


def with_condition(conditions: Sequence[Json], new: Json) -> list[Json]:
    """``conditions`` with ``new``, last. One of the same status and reason stays; the same status keeps its moment."""
    before = find_condition(conditions, str(new["type"]))
    if before is not None:
        if (before.get("status"), before.get("reason")) == (new["status"], new["reason"]):
            return list(conditions)
        if before.get("status") == new["status"]:
            new = {**new, "lastTransitionTime": before.get("lastTransitionTime")}
    return [*without_condition(conditions, str(new["type"])), new]


def made_condition(
    kind: str, status: str, reason: str, message: str, now: datetime, *, moment: str = "lastUpdateTime"
) -> Json:
    """A condition that holds since ``now``. ``moment`` names the second moment that it has, empty for none."""
    made: Json = {"type": kind, "status": status}
    if moment:
        made[moment] = timestamp(now)
    return {**made, "lastTransitionTime": timestamp(now), "reason": reason, "message": message}
