"""Pods of a recording that does not tell of any, from the calls that a kubelet made for them. Pure.

Each Allocate is a pod with one container. It ends before another pod gets one of its devices, or when its plugin is
called for their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.model.requests import ContainerKind
from plugbay.traffic.pod_events import PodEvent, RecordedContainer, RecordedStep
from plugbay.wire.message_values import ALLOCATE, message_value, method_name

CONTAINER: Final = "app"
Call = tuple[int, str, str, bytes, RpcFailed | None]
"""Line, method, resource, request, and the failure."""
DerivedTurn = tuple[int, PodEvent, PodEvent | None, int]
"""Line, question, answer, and the last line of its calls."""


def derived_pods(calls: Iterable[Call]) -> Iterator[DerivedTurn]:
    """The questions for such pods, in order."""
    holders: dict[tuple[str, str], str] = {}
    first_line = 0
    for line, method, resource, request, failure in calls:
        devices, name = devices_asked(method, request), method_name(method)
        if name == "GetPreferredAllocation":
            first_line = first_line or line
        elif name == "PreStartContainer":
            for uid in _holders(holders, resource, devices):
                yield _container(line, uid, failure)
        elif name in ("PostStopContainer", "Deallocate"):
            for uid in _holders(holders, resource, devices):
                yield from _end(line, uid, holders, is_released=name == "Deallocate")
        elif method == ALLOCATE:
            begin = first_line or line
            for uid in _holders(holders, resource, devices):
                yield from _end(begin, uid, holders, is_released=True)
            uid = f"pod-of-line-{line}"
            yield _admission(begin, line, uid, resource, devices, failure)
            if failure is None:
                holders.update(dict.fromkeys(((resource, each) for each in devices), uid))
            first_line = 0


def devices_asked(method: str, request: bytes) -> tuple[str, ...]:
    """The device IDs of a call, sorted."""
    value = message_value(method, request, is_answer=False) or {}
    parts = [value, *value.get("container_requests", [])]
    return tuple(sorted(each for part in parts for each in part.get("devices_ids", [])))


def _holders(holders: dict[tuple[str, str], str], resource: str, devices: Iterable[str]) -> list[str]:
    found = (holders.get((resource, each)) for each in devices)
    return list(dict.fromkeys(uid for uid in found if uid is not None))


def _admission(
    begin: int, line: int, uid: str, resource: str, devices: tuple[str, ...], failure: RpcFailed | None
) -> DerivedTurn:
    container = RecordedContainer(CONTAINER, ContainerKind.APP, {resource: len(devices)})
    question = PodEvent(0, RecordedStep.ADMIT, uid, "default", uid, (container,))
    if failure is not None:
        return begin, question, PodEvent(0, RecordedStep.REFUSED, uid), line
    given = {CONTAINER: {resource: devices}}
    return begin, question, PodEvent(0, RecordedStep.ADMITTED, uid, devices=given), line


def _container(line: int, uid: str, failure: RpcFailed | None) -> DerivedTurn:
    step = RecordedStep.PREPARED if failure is None else RecordedStep.NOT_PREPARED
    question = PodEvent(0, RecordedStep.PREPARE, uid, container=CONTAINER)
    return line, question, PodEvent(0, step, uid, container=CONTAINER), line


def _end(line: int, uid: str, holders: dict[tuple[str, str], str], *, is_released: bool) -> Iterator[DerivedTurn]:
    yield line, PodEvent(0, RecordedStep.ENDED, uid, container=CONTAINER, instance=f"{CONTAINER}-0"), None, line
    if is_released:
        for key in [key for key, holder in holders.items() if holder == uid]:
            del holders[key]
        yield line, PodEvent(0, RecordedStep.RELEASE, uid), PodEvent(0, RecordedStep.RELEASED, uid), line
