"""What is wrong, or worth knowing, about network configurations: values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from plugbay.cni.places import Path, Place, Places, path_text


class Severity(Enum):
    """``ERROR``: no container gets this network. ``WARNING``: it works, though hardly as meant, or not everywhere."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a configuration, or may be.

    Attributes:
        source: the file.
        place: None when it is about the file as a whole.
        where: the member, such as ``plugins[1].type``.
        hint: what to do about it, empty when that is plain.
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
        self.findings: list[Finding] = []
        self._places = places

    def error(self, path: Path, problem: str, hint: str = "") -> None:
        self._add(Severity.ERROR, path, problem, hint)

    def warn(self, path: Path, problem: str, hint: str = "") -> None:
        self._add(Severity.WARNING, path, problem, hint)

    def _add(self, severity: Severity, path: Path, problem: str, hint: str) -> None:
        place = self._places.of(path)
        self.findings.append(Finding(severity, self.source, place, path_text(path), problem, hint))
