"""Set up the logs of a long-running command."""

from __future__ import annotations

import logging
import os
import sys
import threading
from types import TracebackType
from typing import Final, TextIO

_JOURNAL: Final = "JOURNAL_STREAM"

LEVELS: Final = ("debug", "info", "warning", "error")

logger = logging.getLogger(__name__)


def configure_logs(level: str, stream: TextIO, *, form: str = "text") -> None:
    """Log what is at least as important as ``level`` (``debug``, ``info``, ``warning``, ``error``) to ``stream``.

    Args:
        form: ``text``, without times if the stream is the journal, which has its own; or ``json``. Then Python's
            warnings and uncaught errors are log records too, so that every line is an object.

    Raises:
        UsageError: there is no such level; a variable of the environment may name any.
    """
    from plugbay.cli.printing.colour import is_wanted
    from plugbay.ops.logs import PLAIN, TIMED, JsonFormatter, TextFormatter

    if level.upper() not in logging.getLevelNamesMapping():
        from plugbay.errors import UsageError

        raise UsageError(f"the log has no level {level!r}; give --log-level or its variable one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream)
    if form == "json":
        handler.setFormatter(JsonFormatter())
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = _log_uncaught_of_thread
    else:
        lines = TextFormatter(PLAIN if _is_journal(stream) else TIMED)
        handler.setFormatter(_Coloured(lines) if is_wanted(stream, os.environ) else lines)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def log_error(sentence: object) -> None:
    """Log why the command ends, for commands whose last line is a log record too."""
    logger.critical("the command ends: %s", sentence)


class _Coloured(logging.Formatter):
    """The lines of another formatter with the level in colour, where it wants a look."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        from plugbay.cli.printing.colour import FAINT, RED, YELLOW, coloured

        line = self._lines.format(record)
        if record.levelno == logging.INFO:
            return line
        code = RED if record.levelno >= logging.ERROR else YELLOW if record.levelno >= logging.WARNING else FAINT
        return line.replace(record.levelname, coloured(record.levelname, code), 1)


def _is_journal(stream: TextIO) -> bool:
    """Whether systemd reads the stream: the variable, inherited by every process below a service, names it.

    Source: systemd.exec(5), ``$JOURNAL_STREAM``.
    """
    try:
        found = os.fstat(stream.fileno())
    except OSError:
        return False
    return os.environ.get(_JOURNAL) == f"{found.st_dev}:{found.st_ino}"


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logger.critical("the command ends: %s", kind.__name__, exc_info=(kind, error, trace))


def _log_uncaught_of_thread(failed: threading.ExceptHookArgs) -> None:
    error = failed.exc_value or failed.exc_type()
    logger.error("a thread ended: %s", failed.exc_type.__name__, exc_info=(type(error), error, failed.exc_traceback))
