"""The result of a replay: what is the same, what differs, and what cannot be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """One comparison.

    Attributes:
        differences: empty if it is the same; None if it cannot be compared.
        reason: why it cannot be compared.
    """

    title: str
    differences: tuple[str, ...] | None
    reason: str = "the plugin did not end this call in the recording"


@dataclass
class ReplayReport:
    """All comparisons, in order."""

    steps: list[ReplayedStep] = field(default_factory=list)

    @property
    def has_differences(self) -> bool:
        return any(step.differences for step in self.steps)

    def lines(self) -> Iterator[str]:
        """A line for each step, one for each difference, and a summary."""
        for step in self.steps:
            if step.differences is None:
                yield f"not compared  {step.title}: {step.reason}"
            elif not step.differences:
                yield f"same          {step.title}"
            for difference in step.differences or ():
                yield f"differs       {step.title}: {difference}"
        compared = [step for step in self.steps if step.differences is not None]
        differing = sum(bool(step.differences) for step in compared)
        yield (
            f"{len(compared)} compared, {differing} differ" if differing else f"{len(compared)} compared, all the same"
        )
