"""Versions as a type of their own, as in ResourceSlices: a plain text is never taken for a version."""

from __future__ import annotations

import re
from typing import Final

from plugbay.errors import InvalidVersion
from plugbay.values import dataclass

MAX_VERSION_BYTES: Final = 64
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRE: Final = rf"({_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
# Not compiled here: every plugin process and every worker would pay for it.
_VERSION: Final = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE}(\.{_PRE})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"


@dataclass(frozen=True, slots=True)
class SemVer:
    """A version by the rules of Semantic Versioning 2.0.0: three numbers, such as ``535.104.5``, and perhaps more.

    Raises:
        InvalidVersion: the text is not a version, or has more than 64 bytes.
    """

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(_VERSION, self.text) or len(self.text) > MAX_VERSION_BYTES:
            raise InvalidVersion(self.text)

    def __str__(self) -> str:
        return self.text
