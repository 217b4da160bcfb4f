"""Places in a text. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Spot:
    """The place of a value in its file, from 1 on; 0 and 0 for a value that stands in no file."""

    line: int = 0
    column: int = 0


NOWHERE: Final = Spot()
