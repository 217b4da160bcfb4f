"""crun in place of runc: on machines with hybrid cgroups it works only where the second version is out of sight."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = Path("/sys/fs/cgroup/unified")
CONTRACT = Path(__file__).parents[1] / "contract"
ASK = """
import os, sys
from pathlib import Path
from plugbay.runtimes.oci.engines import choose_engine
sys.exit(choose_engine(None, search_path=os.environ["PATH"], state_dir=Path("/nowhere")).kind != "crun")
"""


@pytest.mark.e2e
@pytest.mark.root
@pytest.mark.timeout(180)
@pytest.mark.skipif(
    os.geteuid() != 0 or not HIDDEN.is_mount() or shutil.which("crun") is None,
    reason="needs root, crun, hybrid cgroups",
)
def test_what_engines_do_differently_works_with_crun_too(sockets: Path) -> None:
    chosen = "attach or command or leaving or cannot_run or cdi_devices_are or terminal or keepers or opens or words"
    files = " ".join(
        f"{CONTRACT}/runtimes/test_oci_{each}.py" for each in ("runtime", "edits", "cdi", "exec", "attach", "sharing")
    )
    tests = f'"$1" -m pytest -q --basetemp={sockets}/t -p no:cacheprovider {files} -k "{chosen} or sharing"'
    script = f'umount -l {HIDDEN} && "$1" -c "$2" && exec {tests}'
    unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", sys.executable, ASK)
    done = subprocess.run(unshare, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
