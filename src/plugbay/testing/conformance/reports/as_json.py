"""A report as JSON. Pure.

The members stay as they are within ``"version": 1``; new ones may come.
"""

from __future__ import annotations

import json
from typing import Any, Final

from plugbay.testing.conformance.findings import ConformanceReport, PluginOutput, Verdict

_VERSION: Final = 1


def as_json(report: ConformanceReport) -> str:
    """The report as an indented object."""
    value = {
        "version": _VERSION,
        "command": list(report.command),
        "resources": list(report.resources),
        "summary": {outcome.value: count for outcome, count in report.counts.items()},
        "seconds": round(report.took_s, 3),
        "verdicts": [_verdict(each) for each in report.verdicts],
        "outputs": [_output(each) for each in report.outputs],
        "notes": list(report.notes),
    }
    return json.dumps(value, indent=2) + "\n"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    rule = verdict.rule
    return {
        "rule": rule.name,
        "title": rule.title,
        "severity": rule.severity.value,
        "source": rule.source,
        "resource": verdict.resource,
        "outcome": verdict.outcome.value,
        "known": verdict.is_known,
        "findings": list(verdict.findings),
        "scene": verdict.scene,
        "seconds": round(verdict.took_s, 3),
        "trace": list(verdict.trace) if verdict.is_bad else [],
    }


def _output(output: PluginOutput) -> dict[str, Any]:
    return {"when": output.cause, "end": output.end, "bytes": output.size}
