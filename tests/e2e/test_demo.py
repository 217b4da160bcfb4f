"""`make demo`, as a user runs it: it checks every step itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "tools/demo.py"


@pytest.mark.timeout(120)
def test_every_step_of_the_demo_holds(sockets: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "TMPDIR": str(sockets)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [int(number) for number in re.findall(r"^  \[ ?(\d+)\]", done.stdout, re.MULTILINE)]
    assert steps == list(range(1, 20))
    assert done.stdout.splitlines()[-1].startswith("All of it held")
    assert list(sockets.iterdir()) == []


def test_demo_fails_when_a_step_does_not_hold(sockets: Path) -> None:
    """A demo that cannot fail shows nothing: here the plugin is told of another resource."""
    broken = sockets / "tools" / "demo.py"
    broken.parent.mkdir()
    text = DEMO.read_text()
    assert "PATIENCE_S = 15.0" in text
    text = text.replace("PATIENCE_S = 15.0", "PATIENCE_S = 3.0").replace(
        '"--resource", RESOURCE', '"--resource", "a/b"'
    )
    broken.write_text(text)
    done = subprocess.run(
        [sys.executable, str(broken)], capture_output=True, text=True, timeout=50, check=False, cwd=sockets
    )
    assert done.returncode == 1
    assert "demo failed: node and plugin run; no gopher yet: wanted (0, 0), saw KeyError" in done.stderr
