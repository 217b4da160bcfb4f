"""Devices that change by the user's command: each flaw is caught by the rules that are meant for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand
from tests.contract.testing.conformance.judged import RETRY_S, failed, findings
from tests.contract.testing.conformance.small_plugin import DEVICE_DIRECTORY, LATE_S
from tests.contract.testing.conformance.test_small_flaws import PLUGIN

PROVOKE = """
cd "$PLUGBAY_ROOT/../{directory}" || exit 1
case $PLUGBAY_CHANGE in
disappear) rm "$PLUGBAY_DEVICE" ;;
fail) printf bad > "$PLUGBAY_DEVICE" ;;
appear | recover) : > "$PLUGBAY_DEVICE" ;;
esac
"""
PATIENCE_S: Final = 2 * LATE_S
"""The time to list a change in which a busy machine is forgiven; a flaw that keeps a list back costs all of it."""
RULES = ("PB315", "PB317", "PB318", "PB319", "PB321")


FLAWS: Final = (
    ("partial lists", ["PB317"]),
    ("notices late", ["PB318"]),
    ("one-way health", ["PB319"]),
    ("oldest stream only", ["PB315"]),
    ("newest stream only", ["PB315"]),
    ("streams in turn", ["PB315"]),
    ("ends when empty", ["PB321"]),
)
KEPT_BACK: Final = ("one-way health", "oldest stream only", "newest stream only", "streams in turn")
"""The flaws for which a rule waits until the time is over."""


async def provoked(
    flaw: str, places: Path, provoke: str = PROVOKE, *, retry_timeout_s: float = PATIENCE_S
) -> ConformanceReport:
    devices = places / DEVICE_DIRECTORY
    devices.mkdir()
    for name in ("a", "b", "c"):
        (devices / name).touch()
    settings = ConformanceSettings(
        PluginCommand((sys.executable, PLUGIN, flaw, "{root}")),
        provoke=provoke.replace("{directory}", DEVICE_DIRECTORY),
        retry_timeout_s=retry_timeout_s,
        environ=os.environ,
        places=places,
    )
    report = await judge_plugin(settings, chosen_rules(RULES))
    assert sorted(each.name for each in devices.iterdir()) == ["a", "b", "c"], "all devices are put back"
    return report


async def test_plugin_that_follows_changes_passes(sockets: Path) -> None:
    report = await provoked("none", sockets)
    assert [each.outcome for each in report.verdicts] == [RuleOutcome.PASSED] * len(RULES), report.verdicts


@pytest.mark.parametrize(("flaw", "rules"), FLAWS, ids=[flaw for flaw, _ in FLAWS])
async def test_flaw_is_caught_by_its_rules(flaw: str, rules: list[str], sockets: Path) -> None:
    report = await provoked(flaw, sockets, retry_timeout_s=RETRY_S if flaw in KEPT_BACK else PATIENCE_S)
    assert failed(report) == rules, report.verdicts


async def test_streams_that_get_a_change_at_different_times_pass(sockets: Path) -> None:
    report = await provoked("streams apart", sockets)
    assert [each.outcome for each in report.verdicts] == [RuleOutcome.PASSED] * len(RULES), report.verdicts


@pytest.mark.parametrize(
    ("flaw", "sentence"),
    [
        ("oldest stream only", "that 'a' disappeared was listed on the first stream, and not on the second one"),
        ("newest stream only", "that 'a' disappeared was listed on the second stream, and not on the first one"),
    ],
)
async def test_stream_that_is_not_told_is_named_once(flaw: str, sentence: str, sockets: Path) -> None:
    assert findings(await provoked(flaw, sockets, retry_timeout_s=RETRY_S), "PB315") == [sentence]


async def test_command_that_cannot_change_devices_makes_the_rules_not_applicable(sockets: Path) -> None:
    report = await provoked("none", sockets, "exit 3")
    assert {each.outcome for each in report.verdicts} == {RuleOutcome.NOT_APPLICABLE}


async def test_command_that_fails_is_told_with_what_it_said(sockets: Path) -> None:
    report = await provoked("none", sockets, "echo 'no such slot'; exit 1")
    assert {each.outcome for each in report.verdicts} == {RuleOutcome.NOT_JUDGED}
    assert findings(report, "PB317") == ["the --provoke command failed to disappear 'a', exit code 1: no such slot"]
