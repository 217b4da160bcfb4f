"""Findings about network configurations, as values."""

from __future__ import annotations

from enum import Enum

from plugbay.cni.places import Path, Place, Places, path_text
from plugbay.values import dataclass


class Severity(Enum):
    """``ERROR``: no container gets this network. ``WARNING``: it works, though hardly as meant, or not everywhere."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One fault of a configuration, or a possible fault.

    Attributes:
        source: the file.
        place: None if the finding is about the file as a whole.
        where: the member's path, such as ``plugins[1].type``.
        hint: the remedy; empty if it is plain.
    """

    severity: Severity
    source: str
    place: Place | None
    where: str
    problem: str
    hint: str = ""

    @property
    def sentence(self) -> str:
        at = f":{self.place.line}:{self.place.column}" if self.place else ""
        member = f"{self.where}: " if self.where else ""
        return f"{self.source}{at}: {self.severity.value}: {member}{self.problem}"


class Report:
    """Collects the findings of one file."""

    def __init__(self, source: str, places: Places) -> None:
        self.source = source
        self.findings: list[LintFinding] = []
        self._places = places

    def error(self, path: Path, problem: str, hint: str = "") -> None:
        self._add(Severity.ERROR, path, problem, hint)

    def warn(self, path: Path, problem: str, hint: str = "") -> None:
        self._add(Severity.WARNING, path, problem, hint)

    def _add(self, severity: Severity, path: Path, problem: str, hint: str) -> None:
        place = self._places.of(path)
        self.findings.append(LintFinding(severity, self.source, place, path_text(path), problem, hint))
