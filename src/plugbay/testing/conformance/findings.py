"""Verdicts: what became of each rule, for each resource of the plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Final

from plugbay.testing.conformance.rule import AnyRule, RuleSeverity
from plugbay.values import dataclass


class RuleOutcome(Enum):
    """The result of one rule."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    """It says nothing about this plugin."""
    NOT_JUDGED = "not judged"
    """The plugin did not get so far that it could be judged."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one rule for one resource.

    Attributes:
        resource: its name; empty for a plugin that never registered one.
        findings: a sentence for each thing that is wrong; for other outcomes than FAILED, the reason.
        is_known: whether the baseline has it, so that it counts no more.
        trace: what happened in the rule's scene, a line for each event.
        took_s: the time that its scene took.
        seen_in: the name of its scene, where that is not the rule's first one.
    """

    rule: AnyRule
    resource: str
    outcome: RuleOutcome
    findings: tuple[str, ...] = ()
    is_known: bool = False
    trace: tuple[str, ...] = ()
    took_s: float = 0.0
    seen_in: str = ""

    @property
    def scene(self) -> str:
        """The name of the scene that it goes by."""
        return self.seen_in or self.rule.scene.name

    @property
    def is_bad(self) -> bool:
        """Whether it found something, or could not judge."""
        return self.outcome in (RuleOutcome.FAILED, RuleOutcome.NOT_JUDGED)

    def counts_at(self, threshold: RuleSeverity) -> bool:
        """Whether it makes the run fail: a finding that is not known, or a rule that could not be judged."""
        return self.is_bad and not self.is_known and self.rule.severity.weight >= threshold.weight


_DECISIVE: Final = (
    RuleOutcome.FAILED,
    RuleOutcome.PASSED,
    RuleOutcome.NOT_JUDGED,
    RuleOutcome.NOT_APPLICABLE,
)
"""The outcomes in the order in which those of several scenes decide."""


def joined(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a rule on what was seen in several scenes: the findings of all, and the trace of the first."""
    ordered = sorted(verdicts, key=lambda each: _DECISIVE.index(each.outcome))
    first, *others = ordered
    findings = [each for verdict in ordered if verdict.outcome is first.outcome for each in verdict.findings]
    return replace(first, findings=tuple(dict.fromkeys(findings))) if others else first


@dataclass(frozen=True, slots=True)
class PluginOutput:
    """The end of what a plugin printed, on both its streams.

    Attributes:
        size: all that it printed, in bytes.
        cause: what it was doing then, such as the name of a scene.
    """

    end: str
    size: int
    cause: str = ""

    @property
    def is_cut(self) -> bool:
        return self.size > len(self.end.encode(errors="surrogateescape"))


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The result of a run.

    Attributes:
        command: the plugin under test, as it was given.
        verdicts: by rule, then by resource.
        outputs: what plugins printed that ended or never registered.
        took_s: the time of the whole run.
    """

    command: tuple[str, ...]
    resources: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    outputs: tuple[PluginOutput, ...] = ()
    notes: tuple[str, ...] = ()
    took_s: float = 0.0
    counts: dict[RuleOutcome, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        counts = {each: sum(verdict.outcome is each for verdict in self.verdicts) for each in RuleOutcome}
        object.__setattr__(self, "counts", counts)

    def fails_at(self, threshold: RuleSeverity) -> bool:
        """Whether some verdict at least as grave as ``threshold`` counts."""
        return any(verdict.counts_at(threshold) for verdict in self.verdicts)
