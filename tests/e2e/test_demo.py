"""`make demo`, as a user runs it: it checks every step itself."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from plugbay.kernel.processes import ProcessIdentity, is_running
from tests.contract.rigs.oci import why_not

LEFT_OUT = "A real container is left out: "
DEMO = Path(__file__).parents[2] / "tools/demo.py"


@pytest.mark.timeout(300)
def test_every_step_of_the_demo_holds(sockets: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "TMPDIR": str(sockets)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [int(number) for number in re.findall(r"^  \[ ?(\d+)\]", done.stdout, re.MULTILINE)]
    assert steps == list(range(1, 20 if LEFT_OUT in done.stdout else 23))
    if os.geteuid() == 0:  # an ordinary user needs a device that is open to all, too
        assert (LEFT_OUT in done.stdout) == bool(why_not())
    assert done.stdout.splitlines()[-1].startswith("All of it held")
    assert list(sockets.iterdir()) == []


def test_demo_has_room_for_its_sockets_wherever_temporary_files_go(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room_for_sockets = runpy.run_path(str(DEMO))["room_for_sockets"]
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    assert room_for_sockets() == sockets
    monkeypatch.setattr(tempfile, "tempdir", str(sockets / ("x" * 60)))
    assert room_for_sockets() == Path("/tmp")


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_demo_fails_when_a_step_does_not_hold(sockets: Path) -> None:
    """A demo that cannot fail shows nothing: here the plugin is told of another resource."""
    broken = sockets / "tools" / "demo.py"
    broken.parent.mkdir()
    claim = "node and plugin run; no gopher yet"
    text = DEMO.read_text()
    for part, instead in (
        ('"--resource", RESOURCE', '"--resource", "a/b"'),
        ("+ PATIENCE_S\n", f"+ (PATIENCE_S if claim != {claim!r} else 3.0)\n"),
    ):
        assert text.count(part) == 1
        text = text.replace(part, instead)
    broken.write_text(text)
    done = subprocess.run(
        [sys.executable, str(broken)], capture_output=True, text=True, timeout=100, check=False, cwd=sockets
    )
    assert done.returncode == 1
    assert f"demo failed: {claim}: wanted capacity 0, allocatable 0, saw KeyError" in done.stderr


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_demo_that_is_stopped_while_the_node_is_away_leaves_nothing(sockets: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(sockets)}
    with subprocess.Popen([sys.executable, str(DEMO)], stdout=subprocess.PIPE, text=True, env=environ) as running:
        assert running.stdout is not None
        lines = iter(running.stdout)
        assert any(line.startswith("$ kill -9 ") for line in lines)
        assert next(lines) == "$ plugbay node up &\n"
        [containers] = [
            each for place in sockets.iterdir() for each in place.glob("root/**/containers") if any(each.iterdir())
        ]
        records = [json.loads((each / "process.json").read_text()) for each in containers.iterdir()]
        running.terminate()
        list(lines)
    assert running.returncode == 128 + signal.SIGTERM
    processes = [ProcessIdentity(**record["process"]) for record in records]
    assert len(processes) == 2
    assert not [process for process in processes if is_running(process, proc_root=Path("/proc"))]
    assert list(sockets.iterdir()) == []
