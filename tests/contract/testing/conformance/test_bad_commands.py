"""A program that is not a plugin gets a verdict with the end of what it printed, and the run has an end."""

from __future__ import annotations

from pathlib import Path

from tests.contract.testing.conformance.judged import failed, findings, judged, python


async def test_command_that_is_not_there(sockets: Path) -> None:
    report = await judged(("./no-such-plugin", "{root}"), "PB101", places=sockets)
    assert findings(report, "PB101") == ["./no-such-plugin cannot be run: No such file or directory"]


async def test_command_that_exits_at_once(sockets: Path) -> None:
    report = await judged(python("raise SystemExit('no GPU here')"), "PB101", places=sockets)
    assert failed(report) == ["PB101"]
    assert "with exit code 1, before it had registered" in findings(report, "PB101")[0]
    assert report.outputs[0].end == "no GPU here\n"


async def test_command_that_never_registers(sockets: Path) -> None:
    sleeping = "import signal; print('waiting', flush=True); signal.pause()"
    report = await judged(python(sleeping), "PB101", places=sockets, ready_timeout_s=1.0)
    assert findings(report, "PB101") == ["the plugin called Register not once in 1 s"]
    assert report.outputs[0].end == "waiting\n"


async def test_command_that_prints_megabytes(sockets: Path) -> None:
    chatty = "import sys; sys.stdout.write('x' * 5_000_000 + 'the end'); raise SystemExit(3)"
    report = await judged(python(chatty), "PB101", places=sockets)
    assert report.outputs[0].end.endswith("the end")
    assert report.outputs[0].is_cut
    assert report.outputs[0].size == 5_000_007


async def test_child_that_a_plugin_leaves_behind_is_ended(sockets: Path) -> None:
    leaving = "import subprocess; subprocess.Popen(['sleep', '1000'])"
    report = await judged(python(leaving), "PB101", places=sockets)
    assert failed(report) == ["PB101"]
