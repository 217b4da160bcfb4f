"""Plugins that are programs: started, watched, enclosed; and every way in which they can fail a test."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.testing import ExpectationFailed, LocalKubelet, PluginNotReady, TrafficEvent, local_kubelet
from tests.contract.rigs.kubelet_machine import needs_kubelet_machine
from tests.leftovers import still_running

CARD = "example.com/card"
PLUGIN = """
import os
from plugbay import Device, plugin

print("cards of", os.environ.get("CARDS"))

@plugin("example.com/card")
def cards():
    return [Device(name, env={"CARD": name}) for name in os.environ["CARDS"].split(",")]
"""
STARTS_S = 60.0
"""A Python program beside four workers of tests on two cores."""

SILENT_S = 6
"""A test waits so long in vain, and its program has to have printed a line before."""


@pytest.fixture
def cards(tmp_path: Path) -> list[str]:
    """A plugin for the machine's kubelet; append ``--root {root}`` for ours."""
    path = tmp_path / "cards.py"
    path.write_text(PLUGIN)
    return [sys.executable, "-m", "plugbay", "serve", str(path)]


def script(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


async def test_command_is_told_the_root(cards: list[str]) -> None:
    async with local_kubelet(within_s=STARTS_S) as kubelet:
        plugin = await kubelet.plugin([*cards, "--root", "{root}"], env={"CARDS": "a,b"})
        assert (plugin.name, plugin.exit_code) == (Path(sys.executable).name, None)
        assert (await kubelet.admit({CARD: 1}))["app"].env == {"CARD": "a"}
        assert "cards of a,b" in plugin.output
        await kubelet.restart()
        assert kubelet.allocatable == {CARD: 2}
        await kubelet.end_plugin(plugin)
        assert plugin.exit_code == 0
        assert plugin.has_ended
        await kubelet.wait_for(allocatable={CARD: 0})


@needs_kubelet_machine
async def test_command_with_the_stock_path_compiled_in_finds_the_root_there(cards: list[str]) -> None:
    async with local_kubelet(within_s=STARTS_S) as kubelet:
        await kubelet.plugin([*cards, "--root", "/var/lib/kubelet"], env={"CARDS": "a"})
        assert kubelet.allocatable == {CARD: 1}
        assert kubelet.calls("Register")[0]["resource_name"] == CARD


@needs_kubelet_machine
async def test_enclosed_command_is_not_led_elsewhere_by_the_root_of_the_caller(
    cards: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUGBAY_ROOT", str(tmp_path / "live"))
    async with local_kubelet(within_s=STARTS_S) as kubelet:
        await kubelet.plugin(cards, env={"CARDS": "a"})
        assert kubelet.allocatable == {CARD: 1}


async def test_killed_command_is_seen(cards: list[str]) -> None:
    async with local_kubelet(within_s=STARTS_S) as kubelet:
        plugin = await kubelet.plugin([*cards, "--root", "{root}"], env={"CARDS": "a"}, resources=[CARD])
        kubelet.signal_plugin(plugin, signal.SIGKILL)
        await kubelet.wait_for(allocatable={CARD: 0})
        await kubelet.wait_for(lambda: plugin.has_ended)


async def test_program_ended_by_a_signal_without_a_name_is_told_of() -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, script("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)"))
    assert f"was ended by signal {signal.SIGRTMIN + 3}" in said


async def failure(kubelet: LocalKubelet, command: list[str], within_s: float = STARTS_S) -> str:
    with pytest.raises(PluginNotReady) as caught:
        await kubelet.plugin([*command, "{root}"], within_s=within_s)
    return str(caught.value)


async def test_program_that_is_not_there_is_named() -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, ["/nonsense/plugin"])
        assert said == "/nonsense/plugin cannot be run: there is no such program, or it is not executable"
        for nameless in ([], [""]):
            with pytest.raises(UsageError, match="the name of a program"):
                await kubelet.plugin(nameless)
        with pytest.raises(UsageError, match="are for a command"):
            await kubelet.plugin(object(), env={"A": "b"})


async def test_program_that_ends_at_once_is_not_waited_for() -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, script("import sys; print('no such card'); sys.exit(3)"))
    assert "ended before it was ready: a registration and a list of devices were expected" in said
    assert "ended with exit code 3; the end of its output:\n  | no such card" in said


async def test_program_that_never_registers_is_ended() -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, script("import time; print('waiting', flush=True); time.sleep(600)"), SILENT_S)
        assert f"was not ready within {SILENT_S} s" in said
        assert "; the end of its output:\n  | waiting" in said
        assert "the kubelet knows no resource" in said


async def test_end_of_megabytes_of_output_is_shown() -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, script("for number in range(400_000): print('line', number)"))
    assert said.endswith("  | line 399999")
    assert len(said) < 100_000


REGISTERS = """
import asyncio, sys
from pathlib import Path
from plugbay.testing import KubeletPaths, fake_plugin

async def main():
    paths = KubeletPaths(Path(sys.argv[-1]))
    async with fake_plugin("{name}", paths.device_plugins / "p.sock", None) as plugin:
        try:
            await plugin.register(paths.registration_socket)
        except Exception:
            pass
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Bad Name", "registration of 'Bad Name' at 'p.sock' was refused: the ResourceName \"Bad Name\" is invalid"),
        (CARD, f"{CARD}: capacity 0, allocatable 0; its plugin is registered at p.sock"),
    ],
    ids=["bad name", "no list"],
)
async def test_program_that_registers_badly_is_told_of(name: str, told: str) -> None:
    async with local_kubelet(within_s=STARTS_S) as kubelet:
        await kubelet.plugin([*script(REGISTERS.replace("{name}", name)), "{root}"], wait=False)
        await kubelet.traffic.until(
            lambda record: record.name == "Register" and record.event is TrafficEvent.END, timeout_s=STARTS_S
        )
        with pytest.raises(ExpectationFailed) as caught:
            await kubelet.wait_for(allocatable={CARD: 1}, within_s=0.2)
    assert told in str(caught.value)


FORKS = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""
LEAVES_A_DAEMON = """
import subprocess
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
"""


@pytest.mark.parametrize("program", [FORKS, LEAVES_A_DAEMON], ids=["its child", "a daemon"])
async def test_children_of_a_command_end_with_it(program: str) -> None:
    async with local_kubelet() as kubelet:
        said = await failure(kubelet, script(program), SILENT_S)
    child = int(said.splitlines()[-1].removeprefix("  | "))
    assert still_running([child], within_s=0) == set()


KILLED = """
import os, signal, sys
from plugbay.testing import Kubelet

kubelet = Kubelet()
print(kubelet.paths.root, flush=True)
plugin = kubelet.plugin([sys.executable, "-c", "import time; time.sleep(600)", "{root}"], wait=False)
print(plugin.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_command_ends_with_a_test_run_that_is_killed() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=STARTS_S)
    assert done.returncode == -signal.SIGKILL, done.stderr
    root, pid = done.stdout.splitlines()
    shutil.rmtree(root)  # a process that is killed can remove nothing
    with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(int(pid))) as process:
        assert select.select([process], [], [], STARTS_S)[0], "the plugin still runs"
