"""Traces of a real kubelet, played again to programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from plugbay import Device, DevicePlugin
from plugbay.errors import InvalidDocument, PluginProgramFailed
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.local.opening import local_kubelet
from plugbay.testing.tracing import replay
from plugbay.testing.tracing.replay import replay_trace
from plugbay.testing.tracing.report import ReplayReport
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.records import TrafficRecord

EVERYTHING: Final = Selection()
SERVE: Final = (sys.executable, "-m", "plugbay", "serve", "--root", "{root}")
PROGRAM: Final = """
from plugbay import Device, DevicePlugin

class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("g1", env={"COLOUR": "red"}), Device("g2")]

class Moles(DevicePlugin):
    resource_name = "example.com/mole"

    def discover(self):
        return [Device("m1")]
"""


class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self) -> list[Device]:
        return [Device("g1", env={"COLOUR": "red"}), Device("g2")]


class Moles(DevicePlugin):
    resource_name = "example.com/mole"

    def discover(self) -> list[Device]:
        return [Device("m1")]


@pytest.fixture
async def records() -> Sequence[TrafficRecord]:
    """Two resources, two lives of the kubelet, pods in both, a refused registration."""
    async with local_kubelet(within_s=30) as kubelet:
        refusal = kubelet.faults.refuse("not yet", resource="example.com/mole", times=1)
        await kubelet.plugin(Gophers(), Moles(), wait=False)
        await refusal.until_used(timeout_s=30)
        await kubelet.wait_for(allocatable={"example.com/gopher": 2, "example.com/mole": 1})
        await kubelet.end(await kubelet.admit({"example.com/gopher": 2}))
        await kubelet.restart()
        await kubelet.end(await kubelet.admit({"example.com/mole": 1}))
        return tuple(kubelet.traffic.records)


async def replayed(records: Sequence[TrafficRecord], program: Path, selection: Selection = EVERYTHING) -> ReplayReport:
    command = PluginCommand((*SERVE, str(program)))
    return await replay_trace(records, command, os.environ, selection)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "animals.py"
    path.write_text(PROGRAM)
    return path


async def test_lives_and_refusals_are_played_again(records: Sequence[TrafficRecord], program: Path) -> None:
    report = await replayed(records, program)
    assert not report.has_differences
    titles = [step.title.split(" #")[0] for step in report.steps]
    assert titles.count("example.com/mole  Register") == 3
    assert titles.count("example.com/gopher  Register") == 2
    assert titles.count("example.com/gopher  ListAndWatch") == 2
    assert titles.count("example.com/gopher  Allocate") == 1
    assert titles.count("example.com/mole  Allocate") == 1
    assert list(report.lines())[-1] == f"{len(titles)} compared, all the same"


async def test_only_what_is_selected_is_compared(records: Sequence[TrafficRecord], program: Path) -> None:
    selection = Selection(frozenset({"Allocate"}), frozenset({"example.com/mole"}))
    report = await replayed(records, program, selection)
    assert [step.title.split(" #")[0] for step in report.steps] == ["example.com/mole  Allocate"]


async def test_failure_in_place_of_an_answer_is_told(records: Sequence[TrafficRecord], program: Path) -> None:
    program.write_text(PROGRAM.replace('Device("m1")', 'Device("m2")'))
    report = await replayed(records, program, Selection(frozenset({"Allocate"})))
    [differing] = [step for step in report.steps if step.differences]
    assert differing.title.startswith("example.com/mole  Allocate")
    assert str(differing.differences).startswith("('an answer in the recording, a failure (rpc error: code = ")


async def test_resource_that_is_missing_now_is_a_difference_and_the_others_are_played(
    records: Sequence[TrafficRecord], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "REGISTERS_S", 6.0)  # the plugin has to start within it, and it is waited for in vain
    program.write_text(PROGRAM.partition("class Moles")[0])
    report = await replayed(records, program)
    assert [step.title for step in report.steps if step.differences] == ["example.com/mole  Register"]
    same = [step.title.split(" #")[0] for step in report.steps if not step.differences]
    assert same.count("example.com/gopher  Register") == 2
    assert same.count("example.com/gopher  Allocate") == 1
    assert not [title for title in same if "mole" in title]


async def test_one_of_two_recorded_plugins_is_played_if_it_is_selected(
    records: Sequence[TrafficRecord], program: Path
) -> None:
    program.write_text(PROGRAM.partition("class Moles")[0])
    report = await replayed(records, program, Selection(resources=frozenset({"example.com/gopher"})))
    assert not report.has_differences
    assert {step.title.split()[0] for step in report.steps} == {"example.com/gopher"}


async def test_plugin_that_registers_nothing_of_the_recording_is_an_error(
    records: Sequence[TrafficRecord], program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "REGISTERS_S", 2.0)
    program.write_text(PROGRAM.replace("/gopher", "/badger").replace("/mole", "/vole"))
    with pytest.raises(PluginProgramFailed, match=r"not registered example\.com/\w+ and example\.com/\w+ within 2 s"):
        await replayed(records, program)
    with pytest.raises(InvalidDocument, match=r"no plugin registers example\.com/vole in this trace, but example"):
        await replayed(records, program, Selection(resources=frozenset({"example.com/vole"})))
