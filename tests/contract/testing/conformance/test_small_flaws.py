"""A plugin with one flaw is caught by the rules that are meant for it, and by no other."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import all_rules
from plugbay.testing.conformance.rule import AnyScene
from plugbay.testing.conformance.rules.allocate import ALLOCATE
from plugbay.testing.conformance.rules.lists import LISTS, RESTARTED
from plugbay.testing.conformance.rules.options import OPTIONS
from plugbay.testing.conformance.rules.registration import LATE_KUBELET, QUIET, REFUSING_KUBELET, SLOW_KUBELET
from plugbay.testing.conformance.rules.start import SURVEY
from plugbay.testing.conformance.rules.wrong_ids import WRONG_IDS
from tests.contract.testing.conformance.judged import failed, findings, judged

PLUGIN: Final = str(Path(__file__).with_name("small_plugin.py"))

NEVER_READY: Final = ("wrong version", "bad name", "serves late", "refuses options", "silent", "hasty")
"""With these flaws no time is long enough."""
FLAWS: Final[Sequence[tuple[str, Sequence[AnyScene], list[str]]]] = (
    ("wrong version", [SURVEY], ["PB101", "PB102"]),
    ("bad name", [SURVEY], ["PB101", "PB103"]),
    ("path in endpoint", [SURVEY], ["PB104"]),
    ("serves late", [SURVEY], ["PB101", "PB105"]),
    ("other options", [SURVEY], ["PB107"]),
    ("registers twice", [SURVEY], ["PB116"]),
    ("two resources at one socket", [SURVEY], ["PB106"]),
    ("watched at the same socket", [SURVEY], ["PB106"]),
    ("watched with a bad name", [SURVEY], ["PB103", "PB114"]),
    ("watched as another type", [SURVEY], ["PB114"]),
    ("watched in another version", [SURVEY], ["PB114"]),
    ("watched without a server", [SURVEY], ["PB114"]),
    ("watched and refuses", [SURVEY], ["PB114"]),
    ("watched too", [SURVEY], ["PB115"]),
    ("refuses options", [SURVEY], ["PB101", "PB201"]),
    ("ends without kubelet", [LATE_KUBELET], ["PB111"]),
    ("gives up", [REFUSING_KUBELET], ["PB110"]),
    ("storms", [REFUSING_KUBELET], ["PB113"]),
    ("hasty", [SLOW_KUBELET], ["PB112"]),
    ("registers again", [QUIET], ["PB108"]),
    ("sends all the time", [QUIET], ["PB311"]),
    ("ends the stream", [QUIET], ["PB316"]),
    ("no preferences", [OPTIONS], ["PB204"]),
    ("no pre-start", [OPTIONS], ["PB205"]),
    ("silent", [LISTS], ["PB301"]),
    ("duplicate IDs", [LISTS], ["PB303"]),
    ("not UTF-8", [LISTS], ["PB301", "PB322"]),
    ("odd health", [LISTS], ["PB306"]),
    ("negative node", [LISTS], ["PB307"]),
    ("unstable IDs", [RESTARTED], ["PB313"]),
    ("cannot allocate", [ALLOCATE], ["PB401", "PB402", "PB404"]),
    ("no response", [ALLOCATE], ["PB403"]),
    ("changes its mind", [ALLOCATE], ["PB409"]),
    ("first device only", [ALLOCATE], ["PB410"]),
    ("slow", [ALLOCATE], ["PB424"]),
    ("unknown kills", [WRONG_IDS], ["PB406"]),
    ("odd request kills", [WRONG_IDS], ["PB407"]),
    ("any ID", [WRONG_IDS], ["PB405", "PB423"]),
)
FLAWS_OF_EDITS: Final = (
    "PB411", "PB412", "PB414", "PB415", "PB416", "PB417", "PB418", "PB419", "PB420", "PB421"
)  # fmt: skip
"""The rules that catch the plugin with all flaws of edits together."""


@pytest.mark.parametrize(("flaw", "scenes", "rules"), FLAWS, ids=[flaw for flaw, _, _ in FLAWS])
async def test_flaw_is_caught_by_its_rules(
    flaw: str, scenes: Sequence[AnyScene], rules: list[str], sockets: Path
) -> None:
    chosen = [each.name for each in all_rules() if each.scene in scenes]
    report = await judged(
        (sys.executable, PLUGIN, flaw, "{root}"),
        *chosen,
        places=sockets,
        ready_timeout_s=8.0 if flaw in NEVER_READY else 20.0,
    )
    assert failed(report) == rules, report.verdicts


async def test_end_of_a_plugin_is_told_with_its_cause(sockets: Path) -> None:
    report = await judged((sys.executable, PLUGIN, "unknown kills", "{root}"), "PB406", places=sockets)
    assert findings(report, "PB406") == ["after Allocate of an unknown device: it ended with exit code 7"]


async def test_flaws_of_edits_are_told_apart(sockets: Path) -> None:
    chosen = [each.name for each in all_rules() if each.scene is ALLOCATE]
    report = await judged((sys.executable, PLUGIN, "bad edits", "{root}"), *chosen, places=sockets)
    assert failed(report) == list(FLAWS_OF_EDITS)


@pytest.mark.parametrize(("flaw", "rules"), [("registers twice", ["PB116"]), ("watched too", ["PB115"]), ("none", [])])
async def test_start_is_seen_to_its_end_when_resources_are_named(flaw: str, rules: list[str], sockets: Path) -> None:
    chosen = [each.name for each in all_rules() if each.scene is SURVEY]
    report = await judged(
        (sys.executable, PLUGIN, flaw, "{root}"), *chosen, places=sockets, resources=("example.com/small",)
    )
    assert failed(report) == rules, report.verdicts


async def test_plugin_without_flaws_passes(sockets: Path) -> None:
    """In the groups that this is about: it knows nothing of restarts."""
    groups = ("PB1xx", "PB2xx", "PB3xx", "PB4xx")
    report = await judged((sys.executable, PLUGIN, "none", "{root}"), *groups, places=sockets)
    assert failed(report) == []
    assert all(verdict.outcome.value in ("passed", "not applicable") for verdict in report.verdicts)


async def test_plugin_with_a_port_runs_one_at_a_time(sockets: Path) -> None:
    report = await judged((sys.executable, PLUGIN, "has a port", "{root}"), "PB101", "PB109", "PB111", places=sockets)
    assert failed(report) == []
    assert len(report.notes) == 1
    assert re.match(r"The plugin listens on TCP port [0-9]+, so that only one instance", report.notes[0])
