"""Wait until objects meet a condition, for ``pod wait`` and ``node wait``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from plugbay.cli.kubectl.client import WatchEvent
from plugbay.cli.kubectl.wait_conditions import Deleted, WaitCondition
from plugbay.cli.printing.output import show
from plugbay.cli.printing.progress import few, telling
from plugbay.documents import Json
from plugbay.ops.http_client import TimeIsUp
from plugbay.printers import v1

_GONE: Json = {}


def wait_for(
    changes: Iterator[WatchEvent], objects: dict[str, Json], condition: WaitCondition, *, kind: str
) -> dict[str, Json]:
    """Wait for each of ``objects``, and print when it meets the condition.

    Args:
        objects: by name, as they were after ``changes`` had begun.

    Returns:
        The objects that were not in time, as they were last seen; an empty one if it is gone.
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


def _is_met(change: WatchEvent, before: Json, condition: WaitCondition) -> bool:
    if isinstance(condition, Deleted):
        return change.type == "DELETED" and v1.uid(change.object) == v1.uid(before)
    return change.type != "DELETED" and condition.holds(change.object)


def _say_met(left: dict[str, Json], name: str, kind: str) -> None:
    del left[name]
    show(f"{kind}/{name} condition met\n")
