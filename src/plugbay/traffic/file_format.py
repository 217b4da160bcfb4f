"""Recordings as files: JSON lines, which a later version of plugbay reads too.

The first line is ``{"format": "plugbay-trace", "version": 2, "started": "2026-01-31T12:00:00Z", "masked": true}``, with
``manager`` (its settings) where the manager is ours. Every other line is a record: ``at_s``, ``event``, ``from``,
``connection``, and where they say something ``call``, ``resource``, ``method``, ``bytes`` (the encoded message in
Base64, which counts), ``message`` (the same for people and other programs, which is not read back), ``status``
(``code`` and ``text`` at the end of a call that failed) and ``note``. A list of ListAndWatch after the first one of its
call has ``kept``: two numbers of bytes, at the start and at the end of the list before, between which ``bytes`` belong;
its ``message`` has the devices that changed, and those that are ``gone``. Version 1 has whole lists only.

A line with ``"event": "pod"`` is a step of a pod, see `plugbay.traffic.pod_events`. The last line of a file that has
reached its greatest size is ``{"event": "full"}``; ``{"event": "lost"}`` is that of one which could not be written as
fast as the node had records. Members that we do not know are left alone, and so are unknown records. A last line that
ends in its middle is what a killed process leaves, and no damage.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.traffic.list_differences import ListDifferences
from plugbay.traffic.pod_events import PodEvent
from plugbay.traffic.pod_lines import POD, pod_event, pod_members
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.values import dataclass
from plugbay.wire.message_values import LIST_AND_WATCH

FORMAT: Final = "plugbay-trace"
VERSION: Final = 2
VERSIONS: Final = (1, VERSION)
FULL: Final = '{"event": "full"}\n'
LOST: Final = '{"event": "lost", "note": "the client was too slow, so the recording ends here"}\n'
_EVENTS: Final = frozenset(each.value for each in TrafficEvent)
_SURROGATE: Final = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
_HAS_MESSAGE: Final = frozenset({TrafficEvent.REQUEST, TrafficEvent.ANSWER})


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """The first line.

    Attributes:
        started: when the recording began, as ``2026-01-31T12:00:00Z``.
        is_masked: whether values that look like secrets are left out.
        manager: the settings of a manager of ours; empty for a kubelet.
    """

    started: str
    is_masked: bool
    manager: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """A line of a recording, and its number in the file, from 1 on."""

    number: int
    event: TrafficRecord | PodEvent


def header_of(started: datetime, *, is_masked: bool, manager: Mapping[str, Any] | None = None) -> RecordingHeader:
    """The header of a recording that begins now."""
    return RecordingHeader(started.strftime("%Y-%m-%dT%H:%M:%SZ"), is_masked, manager or {})


def header_line(header: RecordingHeader) -> str:
    """The first line of a file."""
    line: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "started": header.started,
        "masked": header.is_masked,
    }
    return _line(line | ({"manager": dict(header.manager)} if header.manager else {}))


class RecordLines:
    """Writes the lines of one file, in order: a list is written by its difference from the one before."""

    def __init__(self) -> None:
        self._lists = ListDifferences()

    def line(self, event: TrafficRecord | PodEvent) -> str:
        """The line for a record."""
        if isinstance(event, PodEvent):
            return _line(pod_members(event))
        line: dict[str, Any] = {
            "at_s": round(event.at_s, 6),
            "event": event.event.value,
            "from": event.sender.value,
            "connection": event.connection,
        }
        for name, value in (
            ("call", event.call),
            ("resource", event.resource),
            ("method", event.method),
            ("note", event.note),
        ):
            if value:
                line[name] = value
        if event.event in _HAS_MESSAGE:
            line |= self._message(event)
        if event.failure is not None:
            line["status"] = {"code": event.failure.code.value, "text": event.failure.detail}
        if event.event is TrafficEvent.END:
            self._lists.end(event.call)
        return _line(line)

    def _message(self, record: TrafficRecord) -> dict[str, Any]:
        if record.event is TrafficEvent.ANSWER and record.method == LIST_AND_WATCH:
            difference = self._lists.difference(record.call, record.message, record.value)
            if difference is not None:
                return {
                    "message": difference.told,
                    "kept": list(difference.message.kept),
                    "bytes": base64.b64encode(difference.message.between).decode(),
                }
        told = {} if (message := record.value) is None else {"message": message}
        return told | {"bytes": base64.b64encode(record.message).decode()}


def read_trace(
    lines: Iterable[str], source: str, *, torn: Callable[[int], object] = lambda number: None
) -> Iterator[TrafficRecord]:
    """The records of what passed in a file; see `read_recording`."""
    for line in read_recording(lines, source, torn=torn)[1]:
        if isinstance(line.event, TrafficRecord):
            yield line.event


def read_recording(
    lines: Iterable[str], source: str, *, torn: Callable[[int], object] = lambda number: None
) -> tuple[RecordingHeader, Iterator[RecordedLine]]:
    """The header of a file, and its records, which are read as they are asked for.

    Args:
        source: how errors call it.
        torn: called with the number of the last line, if that ends in its middle and so is left out.

    Raises:
        InvalidDocument: it is not a recording, of a version that we do not read, or damaged; with the line.
    """
    numbered = enumerate(lines, start=1)
    _, first = next(numbered, (0, ""))
    if not first:
        raise InvalidDocument("the file is empty", source=source)
    try:
        header = _header(_object(first))
    except ValueError as error:
        raise InvalidDocument(str(error), line=1, source=source) from error
    return header, _events(numbered, source, torn)


def _events(numbered: Iterable[tuple[int, str]], source: str, torn: Callable[[int], object]) -> Iterator[RecordedLine]:
    lists = ListDifferences()
    for number, line in numbered:
        try:
            try:
                content = _object(line)
            except ValueError:
                if line.endswith("\n"):
                    raise
                torn(number)  # no other line has no end
                return
            if content.get("event") == POD:
                yield RecordedLine(number, pod_event(content))
            elif content.get("event") in _EVENTS:
                yield RecordedLine(number, _whole(_record(content), content.get("kept"), lists))
        except KeyError as error:
            raise InvalidDocument(f'"{error.args[0]}" is missing', line=number, source=source) from error
        except (TypeError, AttributeError, OverflowError) as error:
            raise InvalidDocument(f"a value is damaged: {error}", line=number, source=source) from error
        except ValueError as error:
            raise InvalidDocument(str(error), line=number, source=source) from error


def _header(header: Mapping[str, Any]) -> RecordingHeader:
    if header.get("format") != FORMAT:
        raise ValueError("this is not a recording of `plugbay record` or `plugbay trace -o FILE`")
    if header.get("version") not in VERSIONS:
        read = " and ".join(map(str, VERSIONS))
        raise ValueError(f"a recording of version {header.get('version')}; versions {read} are read")
    manager = header.get("manager")
    return RecordingHeader(
        str(header.get("started", "")), header.get("masked") is True, manager if isinstance(manager, dict) else {}
    )


def _record(content: Mapping[str, Any]) -> TrafficRecord:
    return TrafficRecord(
        at_s=float(content["at_s"]),
        event=TrafficEvent(content["event"]),
        sender=Party(content["from"]),
        connection=int(content["connection"]),
        call=int(content.get("call", 0)),
        resource=str(content.get("resource", "")),
        method=str(content.get("method", "")),
        message=base64.b64decode(content.get("bytes", ""), validate=True),
        failure=_failure(content.get("status")),
        note=str(content.get("note", "")),
    )


def _whole(record: TrafficRecord, kept: Any, lists: ListDifferences) -> TrafficRecord:
    """The record with its list whole."""
    if record.event is TrafficEvent.END:
        lists.end(record.call)
    if record.event is not TrafficEvent.ANSWER or record.method != LIST_AND_WATCH:
        return record
    return replace(record, message=lists.whole(record.call, record.message, kept))


def _failure(status: Any) -> RpcFailed | None:
    return None if status is None else RpcFailed(RpcCode(status.get("code")), str(status.get("text", "")))


def _object(line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
        if _SURROGATE.search(line):  # a name that was no UTF-8; half a character can be in no message and no file
            content = json.loads(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
    except json.JSONDecodeError as error:
        raise ValueError(f"this line is not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("this line is nested too deep") from error
    if not isinstance(content, dict):
        raise ValueError("this line is not a JSON object")
    return content


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(", ", ": ")) + "\n"
