"""Formats for log records, a line each: for people, and for machines that collect lines."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, TypeAlias

from plugbay.errors.wording import clipped, printable

_ExceptionInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

PLAIN: Final = "%(levelname)-7s %(message)s"
"""The format for people where the reader of the log, such as systemd, adds the time."""
TIMED: Final = f"%(asctime)s {PLAIN}"

_MAX_TEXT: Final = 16 * 1024
"""The most characters of a message, and of each value in it: a plugin's answer may have megabytes."""

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; all others came by ``extra``."""
_DEPTH: Final = 16
"""The depth of nesting beyond which values are written as text: a list may hold itself."""


class TextFormatter(logging.Formatter):
    """A line for people, cut where it is far too long.

    Texts of plugins and kubelets are in it, and terminals show it: characters that a terminal would obey are escaped.
    Only the first line of a record begins at the left, so that no text can pass itself off as a record.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        first, *further = printable(clipped(super().formatMessage(record), _MAX_TEXT)).split("\n")
        return "\n".join((first, *map(_further, further)))

    def formatException(self, ei: _ExceptionInfo) -> str:
        lines = printable(clipped(super().formatException(ei), 4 * _MAX_TEXT)).split("\n")
        return "\n".join(map(_further, lines))

    def formatStack(self, stack_info: str) -> str:
        return "\n".join(map(_further, printable(stack_info).split("\n")))


class JsonFormatter(logging.Formatter):
    """One JSON object a record, on one line whatever the record holds.

    ``time``, ``level``, ``logger`` and ``message``; if there were values to fill in, also the constant ``template`` and
    its ``values``, by which lines of the same kind can be found; what came by ``extra`` under its own names;
    ``exception`` with the whole traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": clipped(_message(record), _MAX_TEXT),
        }
        if record.args:
            fields["template"] = str(record.msg)
            fields["values"] = record.args if isinstance(record.args, Mapping) else list(record.args)
        if record.exc_info and record.exc_info[1] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = record.stack_info
        extra = {name: value for name, value in vars(record).items() if name not in _OWN and name not in fields}
        from json import dumps  # imported here: most processes log text

        return dumps(_plain({**fields, **extra}))


def _further(line: str) -> str:
    """A line of a record that is not its first one."""
    return f"    {line}"


def _rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # values that do not fit their template, or cannot be shown; what there is of it is logged
        return str(record.msg)


def _plain(value: object, depth: int = 0) -> object:
    """``value`` as JSON has it: texts that any reader can decode, no NaN or infinity, everything else as text."""
    if depth == _DEPTH:
        return _text(value)
    match value:
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {_text(key): _plain(each, depth + 1) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each, depth + 1) for each in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:  # of whatever an author logs
        text = f"<{type(value).__name__} whose text raised {type(error).__name__}>"
    # A file name that is not UTF-8 holds lone surrogates (PEP 383), which many JSON readers refuse.
    return clipped(text, _MAX_TEXT).encode(errors="backslashreplace").decode()
