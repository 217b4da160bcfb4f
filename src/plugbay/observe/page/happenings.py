"""The events of a node's time line: what differs between one state of the rows and the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Final

from plugbay.documents import Json
from plugbay.observe.page.rows import NODE, Rows, changes_between
from plugbay.printers import v1
from plugbay.values import dataclass

_MOST_OF_A_KIND: Final = 8
"""More events of one kind and resource at one moment become one event."""


class HappeningKind(Enum):
    APPEARED = "appeared"
    VANISHED = "vanished"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    HELD = "held"
    FREED = "freed"
    PLUGIN = "plugin"
    PROBLEM = "problem"


_PLURALS: Final = {
    HappeningKind.APPEARED: "devices appeared",
    HappeningKind.VANISHED: "devices vanished",
    HappeningKind.HEALTHY: "devices are healthy again",
    HappeningKind.UNHEALTHY: "devices are not healthy any more",
    HappeningKind.HELD: "devices were given to containers",
    HappeningKind.FREED: "devices were given back",
}


@dataclass(frozen=True, slots=True)
class NodeHappening:
    """One event.

    Attributes:
        at: seconds since 1970.
        resource: the resource that it is about; empty for the node.
        pod: ``NAMESPACE/NAME`` of a pod that it is about.
    """

    at: float
    kind: HappeningKind
    text: str
    resource: str = ""
    device: str = ""
    pod: str = ""

    def to_json(self) -> Json:
        return {
            "at": self.at,
            "kind": self.kind.value,
            "text": self.text,
            "resource": self.resource,
            "device": self.device,
            "pod": self.pod,
        }


def happenings(before: Rows, after: Rows, *, at: float) -> list[NodeHappening]:
    """The events that explain how ``before`` became ``after``."""
    changes = changes_between(before, after)
    found: list[NodeHappening] = []
    for key in (*changes.put, *changes.gone):
        match key.split(" ", 2):
            case ["d", _, _]:
                found += _device(before.get(key), after.get(key), at)
            case ["r", name]:
                found += _plugin(name, before.get(key), after.get(key), at)
            case _ if key == NODE:
                found += _problems(before.get(key), after.get(key), at)
    return [each for group in _kinds(found) for each in _few(group, at)]


def _kinds(found: Iterable[NodeHappening]) -> Iterator[list[NodeHappening]]:
    order = sorted(found, key=lambda each: (each.resource, each.kind.value, each.device))
    for _, group in groupby(order, key=lambda each: (each.resource, each.kind)):
        yield list(group)


def _few(group: Sequence[NodeHappening], at: float) -> Iterable[NodeHappening]:
    kind, resource = group[0].kind, group[0].resource
    if len(group) <= _MOST_OF_A_KIND or kind not in _PLURALS:
        return group
    return [NodeHappening(at, kind, f"{len(group)} {_PLURALS[kind]}", resource)]


def _device(before: Json | None, after: Json | None, at: float) -> Iterator[NodeHappening]:
    row = after if after is not None else before
    resource, device = v1.text(row, "resource"), v1.text(row, "id")

    def event(kind: HappeningKind, text: str, pod: str = "") -> NodeHappening:
        return NodeHappening(at, kind, text, resource, device, pod)

    if after is None:
        yield event(HappeningKind.VANISHED, f"{device} vanished")
        return
    if before is None:
        yield event(HappeningKind.APPEARED, f"{device} appeared, {_state(after)}")
    elif v1.text(before, "health") != v1.text(after, "health"):
        is_well = v1.text(after, "health") == "Healthy"
        yield event(HappeningKind.HEALTHY if is_well else HappeningKind.UNHEALTHY, f"{device} became {_state(after)}")
    had, has = _holders(before), _holders(after)
    for container, pod in has.items():
        if container not in had:
            yield event(HappeningKind.HELD, f"{device} was given to {container}", pod)
    for container, pod in had.items():
        if container not in has:
            yield event(HappeningKind.FREED, f"{device} was given back by {container}", pod)


def _state(device: Json) -> str:
    word, reason = v1.text(device, "health"), v1.text(device, "reason")
    return f"{word} ({reason})" if reason else word


def _holders(device: Json | None) -> dict[str, str]:
    """The pods that hold a device, by ``NAMESPACE/POD/CONTAINER``."""
    found = {}
    for holder in v1.objects(device, "holders"):
        pod = f"{v1.text(holder, 'namespace')}/{v1.text(holder, 'pod')}" if v1.text(holder, "pod") else ""
        found[f"{pod or v1.text(holder, 'uid')}/{v1.text(holder, 'container')}"] = pod
    return found


def _plugin(resource: str, before: Json | None, after: Json | None, at: float) -> Iterator[NodeHappening]:
    was, now = v1.mapping(before, "plugin"), v1.mapping(after, "plugin")
    if was.get("state") == now.get("state") and was.get("socket") == now.get("socket"):
        return
    if not now:
        text = "its plugin is not seen any more"
    elif was and was.get("state") == now.get("state"):
        text = "its plugin registered anew"
    else:
        text = f"its plugin is {v1.text(now, 'state')}"
    yield NodeHappening(at, HappeningKind.PLUGIN, text, resource)


def _problems(before: Json | None, after: Json | None, at: float) -> Iterator[NodeHappening]:
    was, now = v1.texts(before, "problems"), v1.texts(after, "problems")
    for sentence in now:
        if sentence not in was:
            yield NodeHappening(at, HappeningKind.PROBLEM, sentence)
    if was and not now and after is not None:
        yield NodeHappening(at, HappeningKind.PROBLEM, "all sources can be read again")
