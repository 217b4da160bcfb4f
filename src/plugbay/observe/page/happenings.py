"""The events of a node's time line: what differs between one state of the rows and the next. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Final

from plugbay.documents import Json
from plugbay.observe.page.rows import DeviceRow, NodeRow, ResourceRow, RowChanges, Rows
from plugbay.observe.view import DeviceView, HealthWord, PluginView, RejectedPod, SocketView
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
    REJECTED = "rejected"
    PLUGIN = "plugin"
    PROBLEM = "problem"


_PLURALS: Final = {
    HappeningKind.APPEARED: "devices appeared",
    HappeningKind.VANISHED: "devices vanished",
    HappeningKind.HEALTHY: "devices are healthy again",
    HappeningKind.UNHEALTHY: "devices are not healthy any more",
    HappeningKind.HELD: "devices were given to containers",
    HappeningKind.FREED: "devices were given back",
    HappeningKind.REJECTED: "pods were refused",
}


@dataclass(frozen=True, slots=True)
class NodeHappening:
    """One event.

    Attributes:
        at: seconds since 1970.
        resource: the resource that it is about; empty for the node.
        pod: ``NAMESPACE/NAME`` of a pod that it is about.
        socket: the name of the socket in the device-plugins directory that it is about.
    """

    at: float
    kind: HappeningKind
    text: str
    resource: str = ""
    device: str = ""
    pod: str = ""
    socket: str = ""

    def to_json(self) -> Json:
        return {
            "at": self.at,
            "kind": self.kind.value,
            "text": self.text,
            "resource": self.resource,
            "device": self.device,
            "pod": self.pod,
            "socket": self.socket,
        }


def happenings(before: Rows, changes: RowChanges, *, at: float) -> list[NodeHappening]:
    """The events that explain what became of the rows ``before``."""
    found: list[NodeHappening] = []
    for key in (*changes.put, *changes.gone):
        match before.get(key), changes.put.get(key):
            case (DeviceRow() | None as was, DeviceRow() as row) | (DeviceRow() as was, None as row):
                found += _device(was, row, at)
            case (ResourceRow() | None as was, ResourceRow() as row) | (ResourceRow() as was, None as row):
                found += _plugin(was, row, at)
            case (SocketView() | None as was, SocketView() as row) | (SocketView() as was, None as row):
                found += _socket(was, row, at)
            case (None, RejectedPod() as row):
                found.append(_rejected(row, at))
            case (NodeRow() | None as was, NodeRow() as row):
                found += _problems(was.problems if was else (), row.problems, at)
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


def _device(before: DeviceRow | None, after: DeviceRow | None, at: float) -> Iterator[NodeHappening]:
    row = after or before
    assert row is not None

    def event(kind: HappeningKind, what: str, pod: str = "") -> NodeHappening:
        return NodeHappening(at, kind, f"{row.device.id} {what}", row.resource, row.device.id, pod)

    if after is None:
        yield event(HappeningKind.VANISHED, "vanished")
        return
    device, health = after.device, after.device.health
    if before is None:
        yield event(HappeningKind.APPEARED, f"appeared, {_state(device)}")
    elif before.device.health.word is not health.word:
        is_well = health.word is HealthWord.HEALTHY
        yield event(HappeningKind.HEALTHY if is_well else HappeningKind.UNHEALTHY, f"became {_state(device)}")
    had, has = _holders(before.device) if before else {}, _holders(device)
    for container, pod in has.items():
        if container not in had:
            yield event(HappeningKind.HELD, f"was given to {container}", pod)
    for container, pod in had.items():
        if container not in has:
            yield event(HappeningKind.FREED, f"was given back by {container}", pod)


def _state(device: DeviceView) -> str:
    word, reason = device.health.word.value, device.health.reason
    return f"{word} ({reason})" if reason else word


def _holders(device: DeviceView) -> dict[str, str]:
    """The pods that hold a device as ``NAMESPACE/NAME``, empty where that is not known, by container."""
    return {str(each): f"{each.namespace}/{each.pod}" if each.pod else "" for each in device.holders}


def _plugin(before: ResourceRow | None, after: ResourceRow | None, at: float) -> Iterator[NodeHappening]:
    row = after or before
    assert row is not None
    was, now = before.plugin if before else None, after.plugin if after else None
    if text := _of_plugin(was, now):
        yield NodeHappening(at, HappeningKind.PLUGIN, text, row.name)


def _of_plugin(was: PluginView | None, now: PluginView | None) -> str:
    if was is not None and now is not None and (was.state, was.socket) == (now.state, now.socket):
        return "its plugin registered anew" if (was.registrations or 0) < (now.registrations or 0) else ""
    if now is None:
        return "its plugin is not seen any more" if was is not None else ""
    return "its plugin registered anew" if was and was.state == now.state else f"its plugin is {now.state}"


def _socket(before: SocketView | None, after: SocketView | None, at: float) -> Iterator[NodeHappening]:
    """The visible part of any plugin's life: its socket is made, a process listens there, or none does any more."""
    row = after or before
    assert row is not None
    if text := _of_socket(before, after):
        yield NodeHappening(at, HappeningKind.PLUGIN, f"{row.name} {text}", socket=row.name)


def _of_socket(was: SocketView | None, now: SocketView | None) -> str:
    if now is None:
        return "was removed"
    by = f", and {now.command or 'a process'} listens there" if now.is_listening else ", and nothing listens there"
    if was is None:
        return f"was made{by}"
    if was.made != now.made:
        return f"was made anew{by}"
    if was.is_listening != now.is_listening:
        return "has a process that listens again" if now.is_listening else "has no process that listens any more"
    return ""


def _rejected(row: RejectedPod, at: float) -> NodeHappening:
    pod = f"{row.namespace}/{row.pod}"
    why = f"{row.reason}: {row.message}" if row.message else row.reason
    return NodeHappening(at, HappeningKind.REJECTED, f"{pod} was refused, {why}", pod=pod)


def _problems(was: Sequence[str], now: Sequence[str], at: float) -> Iterator[NodeHappening]:
    for sentence in now:
        if sentence not in was:
            yield NodeHappening(at, HappeningKind.PROBLEM, sentence)
    if was and not now:
        yield NodeHappening(at, HappeningKind.PROBLEM, "all sources can be read again")
