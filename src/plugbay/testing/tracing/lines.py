"""Records as lines that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import LIST_AND_WATCH

_WIDTH: Final = 400
"""The characters of a message that a line shows."""
_FEW: Final = 8
_ARROWS: Final = {Party.KUBELET: "kubelet -> plugin ", Party.PLUGIN: "plugin  -> kubelet"}


class TraceLines:
    """Makes the lines of one trace, in order: a list of devices is told by what has changed since the one before.

    Args:
        is_full: whether messages are shown whole, and lists too.
    """

    def __init__(self, *, is_full: bool = False) -> None:
        self._is_full = is_full
        self._asked_s: dict[int, float] = {}
        self._answered: set[int] = set()
        self._devices: dict[int, Mapping[str, str]] = {}

    def line(self, record: TrafficRecord) -> str | None:
        """The line for a record; None for one that others tell already."""
        text = self._text(record)
        if text is None:
            return None
        resource = f"{record.resource}  " if record.resource else ""
        return f"{record.at_s:9.3f} s  {_ARROWS[record.sender]}  {resource}{text}"

    def _text(self, record: TrafficRecord) -> str | None:
        call = f"{record.name} #{record.call}"
        match record.event:
            case TrafficEvent.CONNECTED:
                return f"connection {record.connection} is made"
            case TrafficEvent.CLOSED:
                return f"connection {record.connection} is closed"
            case TrafficEvent.REQUEST:
                self._asked_s[record.call] = record.at_s
                return _joined(call, self._message(record))
            case TrafficEvent.ANSWER:
                self._answered.add(record.call)
                return self._answer(record, call)
            case TrafficEvent.END:
                return self._end(record, call)
            case TrafficEvent.FAULT:
                return f"{call} disturbed: {record.note}"

    def _answer(self, record: TrafficRecord, call: str) -> str:
        if record.method == LIST_AND_WATCH and not self._is_full and (told := self._devices_told(record)) is not None:
            return f"{call} list: {told}"
        return _joined(f"{call} answer{self._took(record)}", self._message(record))

    def _end(self, record: TrafficRecord, call: str) -> str | None:
        asked_s, is_answered = self._asked_s.pop(record.call, None), record.call in self._answered
        self._answered.discard(record.call)
        self._devices.pop(record.call, None)
        took = "" if asked_s is None else f" ({_duration(record.at_s - asked_s)})"
        if record.failure is not None:
            return f"{call} failed{took}: {record.failure}"
        if record.method == LIST_AND_WATCH:
            return f"{call} ended{took}"
        return None if is_answered else f"{call} ended without an answer{took}"

    def _took(self, record: TrafficRecord) -> str:
        asked_s = self._asked_s.get(record.call)
        return "" if asked_s is None else f" ({_duration(record.at_s - asked_s)})"

    def _message(self, record: TrafficRecord) -> str:
        value = record.value
        if value is None:
            return f"{len(record.message)} bytes that cannot be read: {record.message[:32].hex(' ')}"
        text = shown(value)
        if self._is_full or len(text) <= _WIDTH:
            return text
        return f"{text[:_WIDTH]}... ({len(record.message)} bytes)"

    def _devices_told(self, record: TrafficRecord) -> str | None:
        value = record.value
        if value is None:
            return None
        devices = {str(each.get("ID", "")): _state(each) for each in value.get("devices", [])}
        before = self._devices.get(record.call)
        self._devices[record.call] = devices
        sick = sum(not state.startswith("Healthy") for state in devices.values())
        total = f"{len(devices)} devices" + (f", {sick} not healthy" if sick else "")
        if len(devices) == 1:
            total = total.replace("devices", "device")
        if before is None:
            return f"{total}: {_few([f'{name} {state}' for name, state in devices.items()])}" if devices else total
        changes = [
            *(f"-{name}" for name in before if name not in devices),
            *(f"+{name} {state}" for name, state in devices.items() if name not in before),
            *(f"{name} {state}" for name, state in devices.items() if name in before and before[name] != state),
        ]
        return f"{total}: {_few(changes) if changes else 'as before'}"


def shown(value: Any) -> str:
    """A value in a form like YAML's on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}: {_part(each)}" for name, each in value.items())
        return inner or "(empty)"
    return _part(value)


def _part(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_part(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_part, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' ,:[]{}"') else repr(text)


def _joined(head: str, message: str) -> str:
    return head if message == "(empty)" else f"{head}: {message}"


def _state(device: Mapping[str, Any]) -> str:
    nodes = [each.get("ID", 0) for each in device.get("topology", {}).get("nodes", [])]
    reason = f" ({device['health_reason']})" if device.get("health_reason") else ""
    place = f" on NUMA {','.join(map(str, nodes))}" if nodes else ""
    return f"{device.get('health', '')}{reason}{place}"


def _few(texts: Sequence[str]) -> str:
    more = len(texts) - _FEW
    return ", ".join(texts[:_FEW]) + (f" and {more} more" if more > 0 else "")


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
