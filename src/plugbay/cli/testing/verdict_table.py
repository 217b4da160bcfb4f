"""A report as text: a row for each rule that something is to be said about, and a sentence on the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from plugbay.cli.printing.table import Columns
from plugbay.errors.wording import printable
from plugbay.testing.conformance.findings import ConformanceReport, PluginOutput, RuleOutcome, Verdict
from plugbay.testing.conformance.rule import AnyRule

_WORDS: Final = {
    RuleOutcome.PASSED: "ok",
    RuleOutcome.FAILED: "FAILED",
    RuleOutcome.NOT_APPLICABLE: "n/a",
    RuleOutcome.NOT_JUDGED: "not judged",
}


def as_table(report: ConformanceReport) -> str:
    """The table, then each finding, what the plugin printed where it ended, and the sums."""
    rows = [_row(verdict, report.resources) for verdict in report.verdicts]
    return "".join(
        [
            Columns(
                ["RULE", "SEVERITY", "VERDICT", *(["RESOURCE"] if _shows(report.resources) else []), "TITLE"]
            ).table(rows),
            *_findings(report),
            *(_output(each) for each in report.outputs),
            *(f"\n{note}\n" for note in report.notes),
            f"\n{summary(report)}\n",
        ]
    )


def rule_table(rules: Iterable[AnyRule]) -> str:
    """All rules, a row for each."""
    return Columns(["RULE", "SEVERITY", "TITLE"]).table(
        [[each.name, each.severity.value, each.title] for each in rules]
    )


def summary(report: ConformanceReport) -> str:
    """The sums, as one line."""
    known = sum(verdict.is_known for verdict in report.verdicts)
    parts = [
        f"{report.counts[RuleOutcome.PASSED]} passed",
        f"{report.counts[RuleOutcome.FAILED] - known} failed",
        *([f"{known} known"] if known else []),
        f"{report.counts[RuleOutcome.NOT_APPLICABLE]} not applicable",
        *([f"{report.counts[RuleOutcome.NOT_JUDGED]} not judged"] if report.counts[RuleOutcome.NOT_JUDGED] else []),
    ]
    return f"{', '.join(parts)} in {report.took_s:.1f} s"


def _shows(resources: Sequence[str]) -> bool:
    return len(resources) > 1


def _row(verdict: Verdict, resources: Sequence[str]) -> list[str]:
    word = "known" if verdict.is_known else _WORDS[verdict.outcome]
    resource = [verdict.resource or "-"] if _shows(resources) else []
    return [verdict.rule.name, verdict.rule.severity.value, word, *resource, verdict.rule.title]


def _findings(report: ConformanceReport) -> Iterator[str]:
    """Each finding by its rule; a reason for which several could not be judged is told once, after the others."""
    unjudged: dict[tuple[str, tuple[str, ...]], list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is RuleOutcome.NOT_JUDGED:
            unjudged.setdefault((verdict.resource, verdict.findings), []).append(verdict)
        elif verdict.is_bad:
            yield from _finding(f"{verdict.rule.name} {verdict.rule.title}", verdict, report)
    for alike in unjudged.values():
        rules = ", ".join(each.rule.name for each in alike)
        title = alike[0].rule.title if len(alike) == 1 else "could not be judged"
        yield from _finding(f"{rules} {title}", alike[0], report)


def _finding(title: str, verdict: Verdict, report: ConformanceReport) -> Iterator[str]:
    resource = f" ({verdict.resource})" if _shows(report.resources) and verdict.resource else ""
    yield f"\n{title}{resource}\n"
    for finding in verdict.findings:
        yield f"  {printable(finding)}\n"


def _output(output: PluginOutput) -> str:
    if not output.size:
        return f"\nThe plugin printed nothing {printable(output.cause)}.\n"
    cut = f" (the end of {output.size} bytes)" if output.is_cut else ""
    lines = "".join(f"  {printable(line)}\n" for line in output.end.splitlines())
    return f"\nThe plugin printed{cut} {printable(output.cause)}:\n{lines}"
