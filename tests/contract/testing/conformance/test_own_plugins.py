"""Our own plugins pass without a finding of any severity, and everything about them can be judged."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from plugbay.kernel.loop import LoopDevices
from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.fakenvml import fake_driver, lay_out_machine, t4
from tests.contract.plugins.test_scratch import can_make_loop_devices
from tests.contract.rigs.nvidia import environ_of, nvml_library

__all__ = ["nvml_library"]

EXAMPLES: Final = Path(__file__).parents[4] / "examples"
SERVE: Final = (sys.executable, "-m", "plugbay", "serve", "--root", "{root}")
MANY_RESTARTS: Final = ("PB8xx",)
"""Load and leaks are those of the SDK, whatever is served with it: the test of one plugin shows them."""
PROVOKE: Final = """
case $PLUGBAY_CHANGE in
disappear) rm "$GOPHERS/$PLUGBAY_DEVICE" ;;
appear) : > "$GOPHERS/$PLUGBAY_DEVICE" ;;
*) exit 3 ;;
esac
"""

pytestmark = pytest.mark.timeout(300)


async def verdict(
    *words: str, places: Path, environ: Mapping[str, str] = os.environ, provoke: str = "", skip: tuple[str, ...] = ()
) -> ConformanceReport:
    settings = ConformanceSettings(
        PluginCommand((*SERVE, *words)), provoke=provoke, environ=environ, places=places, ready_timeout_s=60
    )
    return await judge_plugin(settings, chosen_rules(skip=skip))


def complaints(report: ConformanceReport) -> list[str]:
    return [
        f"{each.rule.name} {each.resource}: {'; '.join(each.findings)}"
        for each in report.verdicts
        if each.outcome in (RuleOutcome.FAILED, RuleOutcome.NOT_JUDGED)
    ]


async def test_directory_plugin_passes(tmp_path: Path, sockets: Path) -> None:
    for name in ("g1", "g2", "g3"):
        (tmp_path / name).touch()
    words = ("directory", "--resource", "example.com/gopher", "--path", str(tmp_path), "--env", "GOPHER")
    report = await verdict(*words, places=sockets, environ={**os.environ, "GOPHERS": str(tmp_path)}, provoke=PROVOKE)
    assert complaints(report) == []
    assert report.counts[RuleOutcome.PASSED] >= 80


async def test_examples_of_several_resources_pass(sockets: Path) -> None:
    report = await verdict(str(EXAMPLES / "resources/plugins.py"), places=sockets, skip=MANY_RESTARTS)
    assert report.resources == ("example.com/burrow", "example.com/gopher")
    assert complaints(report) == []


async def test_example_with_every_hook_passes(tmp_path: Path, sockets: Path) -> None:
    for name in ("w1", "w2"):
        (tmp_path / name).mkdir()
    environ = {**os.environ, "WHITEBOARDS": str(tmp_path)}
    report = await verdict(str(EXAMPLES / "hooks/whiteboards.py"), places=sockets, environ=environ, skip=MANY_RESTARTS)
    assert complaints(report) == []


async def test_nvidia_plugin_passes_on_the_fake_driver(nvml_library: Path, tmp_path: Path, sockets: Path) -> None:
    machine = t4()  # it has one NUMA node, as every machine has
    lay_out_machine(tmp_path, machine)
    words = ("nvidia", "--driver-root-ctr-path=/", f"--machine-root={tmp_path}")
    async with fake_driver(machine, library=nvml_library) as driver:
        report = await verdict(*words, places=sockets, environ=environ_of(driver), skip=MANY_RESTARTS)
    assert complaints(report) == []


@pytest.fixture
def detached(sockets: Path) -> Iterator[None]:
    """The disks below the roots are detached in the end: the roots are gone by then, and no pod's end releases any."""
    yield
    loops = LoopDevices(Path("/dev"), Path("/sys"))
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(FileNotFoundError):  # another test's, which has just been detached
            file = Path(entry.read_text(encoding="utf-8").removesuffix(" (deleted)\n"))
            if file.is_relative_to(sockets):
                for loop in loops.of(file):
                    loops.detach(loop)


@pytest.mark.root
@pytest.mark.skipif(not can_make_loop_devices(), reason="needs root and /dev/loop-control")
@pytest.mark.usefixtures("detached")
async def test_scratch_plugin_passes(sockets: Path) -> None:
    """The instances of a node share its disks, and those of the scenes that are played beside it do not."""
    disks = ("--directory={root}/disks", "--size=1Mi", "--count=2")
    report = await verdict("scratch", "--resource=example.com/scratch", *disks, places=sockets, skip=MANY_RESTARTS)
    assert complaints(report) == []
