"""Plugins in a few lines, and the verdict on them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand

READY_S: Final = 20.0
RETRY_S: Final = 5.0
"""The plugins of tests try again at once."""


def python(program: str) -> tuple[str, ...]:
    """The command line of a Python program that finds the kubelet's root in its first argument."""
    return (sys.executable, "-c", program, "{root}")


async def judged(
    command: tuple[str, ...],
    *rules: str,
    places: Path,
    ready_timeout_s: float = READY_S,
    resources: tuple[str, ...] = (),
) -> ConformanceReport:
    """The report on ``command`` by ``rules``, all if there are none."""
    settings = ConformanceSettings(
        PluginCommand(command),
        ready_timeout_s=ready_timeout_s,
        retry_timeout_s=RETRY_S,
        resources=resources,
        environ=os.environ,
        places=places,
    )
    return await judge_plugin(settings, chosen_rules(rules))


def failed(report: ConformanceReport) -> list[str]:
    """The rules that found something."""
    return [verdict.rule.name for verdict in report.verdicts if verdict.outcome is RuleOutcome.FAILED]


def findings(report: ConformanceReport, rule: str) -> list[str]:
    """The sentences on one rule."""
    return [each for verdict in report.verdicts if verdict.rule.name == rule for each in verdict.findings]
