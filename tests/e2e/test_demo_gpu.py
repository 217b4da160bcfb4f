"""`make demo-gpu`, as a user runs it: it checks every step itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plugbay.testing.fakenvml import find_compiler


@pytest.mark.timeout(200)
@pytest.mark.skipif(find_compiler() is None, reason="no C compiler is installed to make the fake NVML library with")
def test_every_step_of_the_demo_holds(sockets: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo_gpu"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=190,
        check=False,
        env={**os.environ, "TMPDIR": str(sockets)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [int(number) for number in re.findall(r"^  \[ ?(\d+)\]", done.stdout, re.MULTILINE)]
    assert steps == list(range(1, 18))
    assert done.stdout.splitlines()[-1].startswith("All of it held")
    assert list(sockets.iterdir()) == []
