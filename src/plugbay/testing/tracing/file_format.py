"""Traces as files: JSON lines, which a later version of plugbay reads too.

The first line is ``{"format": "plugbay-trace", "version": 1, "started": "2026-01-31T12:00:00Z", "masked": true}``.
Every other line is a record: ``at_s``, ``event``, ``from``, ``connection``, and where they say something ``call``,
``resource``, ``method``, ``bytes`` (the encoded message in Base64, which counts), ``message`` (the same for people and
other programs, which is not read back), ``status`` (``code`` and ``text`` at the end of a call that failed) and
``note``. Members that we do not know are left alone, and so are unknown records.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from plugbay.errors import InvalidDocument, RpcCode, RpcFailed
from plugbay.testing.traffic.records import Party, TrafficEvent, TrafficRecord

FORMAT: Final = "plugbay-trace"
VERSION: Final = 1
_EVENTS: Final = frozenset(each.value for each in TrafficEvent)
_HAS_MESSAGE: Final = frozenset({TrafficEvent.REQUEST, TrafficEvent.ANSWER})


def header_line(started: datetime, *, is_masked: bool) -> str:
    """The first line of a file."""
    written = started.strftime("%Y-%m-%dT%H:%M:%SZ")
    return _line({"format": FORMAT, "version": VERSION, "started": written, "masked": is_masked})


def record_line(record: TrafficRecord) -> str:
    """The line for a record."""
    line: dict[str, Any] = {
        "at_s": round(record.at_s, 6),
        "event": record.event.value,
        "from": record.sender.value,
        "connection": record.connection,
    }
    for name, value in (
        ("call", record.call),
        ("resource", record.resource),
        ("method", record.method),
        ("note", record.note),
    ):
        if value:
            line[name] = value
    if record.event in _HAS_MESSAGE:
        if (message := record.value) is not None:
            line["message"] = message
        line["bytes"] = base64.b64encode(record.message).decode()
    if record.failure is not None:
        line["status"] = {"code": record.failure.code.value, "text": record.failure.detail}
    return _line(line)


def read_trace(lines: Iterable[str], source: str) -> Iterator[TrafficRecord]:
    """The records of a file.

    Args:
        source: how errors call it.

    Raises:
        InvalidDocument: it is not a trace, of a version that we do not read, or damaged; with the line.
    """
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            content = _object(line)
            if number == 1:
                _check_header(content)
            elif content.get("event") in _EVENTS:
                yield _record(content)
        except ValueError as error:
            raise InvalidDocument(str(error), line=number, source=source) from error
    if not number:
        raise InvalidDocument("the file is empty", source=source)


def _check_header(header: Mapping[str, Any]) -> None:
    if header.get("format") != FORMAT:
        raise ValueError("this is not a trace of `plugbay trace -o FILE`")
    if header.get("version") != VERSION:
        raise ValueError(f"a trace of version {header.get('version')}; version {VERSION} is read")


def _record(content: Mapping[str, Any]) -> TrafficRecord:
    try:
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
    except KeyError as error:
        raise ValueError(f'"{error.args[0]}" is missing') from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a value is damaged: {error}") from error


def _failure(status: Any) -> RpcFailed | None:
    return None if status is None else RpcFailed(RpcCode(status.get("code")), str(status.get("text", "")))


def _object(line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"this line is not JSON: {error.msg}") from error
    if not isinstance(content, dict):
        raise ValueError("this line is not a JSON object")
    return content


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(", ", ": ")) + "\n"
