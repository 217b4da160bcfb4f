"""Checks and what they find. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from plugbay.observe.doctor.evidence.values import EvidenceSource, Examined
from plugbay.values import dataclass

PAGE: Final = "docs/doctor.md"


class FindingSeverity(Enum):
    """How bad it is: an error keeps pods from devices, a warning will or may, info is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FixKind(Enum):
    """A change that harms no pod."""

    REMOVE_SOCKET = "remove the socket"
    REMOVE_FILE = "remove the file"
    MAKE_DIRECTORY = "make the directory"


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that `plugbay doctor --fix` makes; ``path`` is as the host names it."""

    kind: FixKind
    path: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.path}"


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that a check found.

    Attributes:
        what: a sentence without its full stop.
        evidence: what was read, where, with values.
        pods: UIDs, or ``NAMESPACE/NAME``, of the pods that it is about; none for the whole node.
        resources: the resources that it is about.
        remedy: in place of the check's, where more is known.
        fixes: harmless changes that mend it.
    """

    what: str
    evidence: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    remedy: str = ""
    fixes: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A check; its texts are also its section of the page.

    Attributes:
        id: stable for ever.
        needs: what it reads; it is incomplete if a part of that could not be read.
        find: what it finds.
    """

    id: str
    severity: FindingSeverity
    title: str
    cause: str
    remedy: str
    needs: tuple[EvidenceSource, ...]
    find: Callable[[Examined], Iterable[Seen]]

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.id.lower()}"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """Something that a check found."""

    check: Check
    seen: Seen

    @property
    def remedy(self) -> str:
        return self.seen.remedy or self.check.remedy


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A check that could not see everything; ``why`` are sentences."""

    check: Check
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of an examination; findings are sorted, the gravest first.

    Attributes:
        checks: the number of checks that ran.
    """

    checks: int
    findings: tuple[DoctorFinding, ...]
    incomplete: tuple[Incomplete, ...]

    @property
    def is_well(self) -> bool:
        return not self.findings and not self.incomplete

    def count(self, severity: FindingSeverity) -> int:
        return sum(each.check.severity is severity for each in self.findings)
