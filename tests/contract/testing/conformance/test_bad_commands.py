"""A program that is not a plugin gets a verdict with the end of what it printed, and the run has an end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import all_rules
from plugbay.testing.conformance.findings import RuleOutcome
from plugbay.testing.conformance.rule import RuleSeverity
from plugbay.testing.conformance.rules.start import SURVEY
from tests.contract.testing.conformance.judged import failed, findings, judged, python
from tests.contract.testing.conformance.test_small_flaws import PLUGIN
from tests.leftovers import still_running

PRINTS_S: Final = 5
"""The run waits so long in vain, and the command has to have printed a line, or registered, before."""
NOT_PLUGINS: Final = ("/no/such/plugin", "/bin/true", "/bin/false")


@pytest.mark.parametrize("program", NOT_PLUGINS)
async def test_what_never_registered_is_judged_by_no_rule_that_needs_it(program: str, sockets: Path) -> None:
    """A choice of some rules would make the run look as if it went well."""
    rules = [each.name for each in all_rules() if each.scene is SURVEY and each.name != "PB101"]
    report = await judged((program, "{root}"), *rules, places=sockets)
    assert {verdict.outcome for verdict in report.verdicts if verdict.rule.name != "PB101"} == {RuleOutcome.NOT_JUDGED}


@pytest.mark.parametrize("program", NOT_PLUGINS)
async def test_what_never_registered_fails_whatever_is_chosen(program: str, sockets: Path) -> None:
    """Not only by a rule that is chosen and a must: none of these is."""
    report = await judged((program, "{root}"), "PB404", "PB905", places=sockets)
    assert failed(report) == ["PB101"]
    assert report.fails_at(RuleSeverity.MUST)


async def test_resource_that_is_missing_fails_whatever_is_chosen(sockets: Path) -> None:
    words = (sys.executable, PLUGIN, "none", "{root}")
    names = ("example.com/small", "example.com/absent")
    report = await judged(words, "PB102", places=sockets, ready_timeout_s=PRINTS_S, resources=names)
    assert failed(report) == ["PB101"]
    assert findings(report, "PB101") == [f"example.com/absent was not registered in {PRINTS_S} s"]


async def test_command_that_is_not_there(sockets: Path) -> None:
    report = await judged(("./no-such-plugin", "{root}"), "PB101", places=sockets)
    assert findings(report, "PB101") == [
        "./no-such-plugin cannot be run: there is no such program, or it is not executable"
    ]


async def test_command_that_exits_at_once(sockets: Path) -> None:
    report = await judged(python("raise SystemExit('no GPU here')"), "PB101", places=sockets)
    assert failed(report) == ["PB101"]
    assert "with exit code 1, before it had registered" in findings(report, "PB101")[0]
    assert report.outputs[0].end == "no GPU here\n"


async def test_command_that_never_registers(sockets: Path) -> None:
    sleeping = ("sh", "-c", "echo waiting; exec sleep 600", "{root}")
    report = await judged(sleeping, "PB101", places=sockets, ready_timeout_s=PRINTS_S)
    assert findings(report, "PB101") == [f"the plugin called Register not once in {PRINTS_S} s"]
    assert report.outputs[0].end == "waiting\n"


async def test_command_that_prints_megabytes(sockets: Path) -> None:
    chatty = "import sys; sys.stdout.write('x' * 5_000_000 + 'the end'); raise SystemExit(3)"
    report = await judged(python(chatty), "PB101", places=sockets)
    assert report.outputs[0].end.endswith("the end")
    assert report.outputs[0].is_cut
    assert report.outputs[0].size == 5_000_007


@pytest.mark.parametrize("then", ["", "; signal.pause()"], ids=["ends", "runs"])
async def test_child_that_a_plugin_leaves_behind_is_ended(then: str, sockets: Path) -> None:
    """Also in a session of its own."""
    leaving = "print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid, flush=True)"
    report = await judged(
        python(f"import signal, subprocess; {leaving}{then}"), "PB101", places=sockets, ready_timeout_s=PRINTS_S
    )
    assert failed(report) == ["PB101"]
    assert still_running([int(report.outputs[0].end)], within_s=0) == set()
