"""Waiting until objects are as they should be: what ``pod wait`` and ``node wait`` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from plugbay.cli import v1
from plugbay.cli.client import WatchEvent
from plugbay.cli.output import show
from plugbay.cli.progress import few, telling
from plugbay.cli.wait_conditions import Deleted, WaitCondition
from plugbay.ops.http_client import TimeIsUp

_GONE: v1.Json = {}


def wait_for(
    changes: Iterator[WatchEvent], objects: dict[str, v1.Json], condition: WaitCondition, *, kind: str
) -> dict[str, v1.Json]:
    """Say of each of ``objects`` when the condition is met.

    Args:
        objects: by name, as they were after ``changes`` had begun.

    Returns:
        Those that were not in time, as they were last seen; empty for one that is gone.
    """
    left = dict(objects)
    for name, value in objects.items():
        if condition.holds(value):
            _say_met(left, name, kind)
    with telling(lambda: f"waiting for {few([f'{kind}/{name}' for name in tuple(left)])}"), suppress(TimeIsUp):
        while left:
            change = next(changes)
            name = v1.name(change.object)
            if name not in left:
                continue
            if _is_met(change, objects[name], condition):
                _say_met(left, name, kind)
            elif not isinstance(condition, Deleted) or v1.uid(change.object) == v1.uid(objects[name]):
                left[name] = _GONE if change.type == "DELETED" else change.object
    return left


def _is_met(change: WatchEvent, before: v1.Json, condition: WaitCondition) -> bool:
    if isinstance(condition, Deleted):
        return change.type == "DELETED" and v1.uid(change.object) == v1.uid(before)
    return change.type != "DELETED" and condition.holds(change.object)


def _say_met(left: dict[str, v1.Json], name: str, kind: str) -> None:
    del left[name]
    show(f"{kind}/{name} condition met\n")
