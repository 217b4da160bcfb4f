"""Known findings: a file of those that shall not fail a run, so that only new ones do.

The file is JSON: ``{"version": 1, "known": [{"rule": "PB108", "resource": "example.com/gpu"}]}``. Further members of an
entry, such as a reason, are left alone. The format is stable: files of today will be read by all later versions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plugbay.errors import UsageError
from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome, Verdict
from plugbay.values import dataclass

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A rule that is known to be broken for a resource; without a resource for all."""

    rule: str
    resource: str = ""

    def covers(self, verdict: Verdict) -> bool:
        """Whether it is the one that the verdict found."""
        is_failed = verdict.outcome is RuleOutcome.FAILED
        return is_failed and verdict.rule.name == self.rule and self.resource in ("", verdict.resource)

    def __str__(self) -> str:
        return f"{self.rule} for {self.resource}" if self.resource else self.rule


def read_baseline(text: str, source: str) -> tuple[KnownFinding, ...]:
    """The known findings in a file.

    Raises:
        UsageError: it is not such a file; the text says what is wrong, and where.
    """
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{source} is not a baseline: {error}") from error
    if not isinstance(value, dict) or value.get("version") != _VERSION or not isinstance(value.get("known"), list):
        raise UsageError(f'{source} is not a baseline: {{"version": {_VERSION}, "known": [...]}} is wanted')
    return tuple(_known(each, f"{source}: known[{at}]") for at, each in enumerate(value["known"]))


def baseline_of(report: ConformanceReport) -> str:
    """A file that knows all findings of ``report``; rules that found something they could not judge are not in it."""
    known = [
        {"rule": each.rule.name, "resource": each.resource}
        for each in report.verdicts
        if each.outcome is RuleOutcome.FAILED
    ]
    return json.dumps({"version": _VERSION, "known": known}, indent=2) + "\n"


def with_baseline(report: ConformanceReport, known: Sequence[KnownFinding]) -> ConformanceReport:
    """``report`` with its known findings marked, and a note on those that are not found any more."""
    verdicts = tuple(replace(each, is_known=any(one.covers(each) for one in known)) for each in report.verdicts)
    judged = {each.rule.name for each in verdicts}
    gone = [each for each in known if each.rule in judged and not any(each.covers(one) for one in verdicts)]
    notes = tuple(f"{each} is in the baseline, and was not found: it can be taken out." for each in gone)
    return replace(report, verdicts=verdicts, notes=(*report.notes, *notes))


def _known(value: object, where: str) -> KnownFinding:
    if not isinstance(value, dict) or not isinstance(value.get("rule"), str):
        raise UsageError(f'{where} is not a finding: {{"rule": "PB108", "resource": "example.com/gpu"}} is wanted')
    resource = value.get("resource", "")
    if not isinstance(resource, str):
        raise UsageError(f"{where}.resource is not a text")
    return KnownFinding(value["rule"], resource)
