"""Errors for the operator: the configuration of a plugin that comes with plugbay is not as it must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.errors.operator import OperatorError
from plugbay.errors.wording import located

_SHOWN_PROBLEMS: Final = 10


class InvalidGenericConfig(OperatorError):
    """A config of the generic plugin cannot be used.

    Attributes:
        problems: a sentence for each thing that is wrong, with its place, in the order of the file.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        shown = self.problems[:_SHOWN_PROBLEMS]
        rest = len(self.problems) - len(shown)
        return "\n".join((*shown, *((f"and {rest} more",) if rest else ())))


class InvalidNvidiaConfig(OperatorError):
    """The configuration of the NVIDIA plugin cannot be used.

    Attributes:
        problem: in the words of NVIDIA's own plugin, where that refuses the same.
        field: a path such as ``sharing.timeSlicing.resources[0].replicas``, a flag, or a variable.
        line: 1-based line in a file.
        source: the file, ``command line``, ``environment`` or ``defaults``.
        allowed: the values that may stand there instead; empty when the problem says so.
        step: the words that NVIDIA's plugin puts in front of the problem.
    """

    def __init__(
        self,
        problem: str,
        field: str = "",
        line: int | None = None,
        source: str = "",
        allowed: str = "",
        step: str = "",
    ) -> None:
        super().__init__(problem, field, line, source, allowed, step)
        self.problem = problem
        self.field = field
        self.line = line
        self.source = source
        self.allowed = allowed
        self.step = step

    def __str__(self) -> str:
        problem = f"{self.problem} (allowed: {self.allowed})" if self.allowed else self.problem
        return located(problem, field=self.field, line=self.line, source=self.source or "configuration")

    @property
    def reference_text(self) -> str:
        """The whole sentence that NVIDIA's plugin logs."""
        return f"{self.step}: {self.problem}" if self.step else self.problem
