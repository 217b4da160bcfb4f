"""Colours for terminals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TextIO

RED: Final = "31"
YELLOW: Final = "33"
FAINT: Final = "2"

_BAD: Final = (
    r"Unhealthy(?:: \w+)?",
    "Failed",
    "Error",
    "NotReady",
    "OOMKilled",
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "DeadlineExceeded",
    r"(?:Err|Create|Run|Start)\w*Error",
    r"ErrImage\w+",
    r"OutOf\S+",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "gone",
    "Gone",
)
_DOUBTFUL: Final = (
    r"Unknown(?:, was \w+(?:: \w+)?)?",
    "Pending",
    "Terminating",
    "Warning",
    "Stopped",
    r"Ready,SchedulingDisabled",
    "Restored",
    "<releasing>",
)
_START: Final = r"(?:(?<=^)|(?<=  )|(?<=\())"
_END: Final = r"(?=  |$| \(|\))"
"""A cell, or a word in brackets behind a device: never a word of a sentence."""
_CELL: Final = rf"{_START}(?:(?P<bad>{'|'.join(_BAD)})|(?P<doubtful>{'|'.join(_DOUBTFUL)})){_END}"


def is_wanted(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour what goes to ``stream``.

    Source: https://no-color.org and https://force-color.org; of both the former counts, as with Python itself.
    """
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def painted(page: str) -> str:
    """A table or a page of ``describe`` with the states in colour that want a look."""
    # Compiled by the first page, and kept by `re`: processes that only log have none.
    return re.sub(_CELL, lambda cell: coloured(cell[0], RED if cell["bad"] else YELLOW), page, flags=re.MULTILINE)
