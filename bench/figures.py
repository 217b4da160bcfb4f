"""What a bench yields, and what is printed of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Pace(Enum):
    """How long a bench may take."""

    FULL = "full"
    QUICK = "quick"
    """Shorter windows and fewer repetitions: a smoke test; its figures are labelled and decide nothing."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; smaller is better.

    Attributes:
        target: the largest value that is all right; None for what is only context for other figures.
    """

    name: str
    value: float
    unit: str
    target: float | None

    @property
    def ok(self) -> bool:
        return self.target is None or self.value <= self.target

    def line(self, pace: Pace) -> str:
        """One JSON object."""
        shown: dict[str, object] = {
            "name": self.name,
            "value": round(self.value, 2),
            "unit": self.unit,
            "target": self.target,
            "ok": self.ok,
        }
        if pace is not Pace.FULL:
            shown["pace"] = pace.value
        return json.dumps(shown)


class Bench(Protocol):
    """A module of this package that measures something."""

    def measure(self, pace: Pace) -> AsyncIterator[Figure]: ...
