"""A machine with a stock kubelet's directory. It has a /var/lib, a /tmp and a network of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.contract.conftest import COMMAND_S, Done

SCRIPT_S: Final = 2 * COMMAND_S
"""Several programs start, one after the other."""
_UNSHARE: Final = (
    "unshare",
    "--mount",
    "--net",  # a node that starts is announced there, by its root: another test's has the same
    "--pid",
    "--fork",
    "--kill-child",  # with its first process ends all that it started
    "--mount-proc",
    *(() if os.geteuid() == 0 else ("--map-root-user",)),
)
_CHECKOUT: Final = Path(__file__).parents[3]
_KEPT: Final = sorted({str(path) for path in (_CHECKOUT, sys.prefix, sys.base_prefix) if str(path).startswith("/tmp/")})
"""What a checkout in /tmp needs there."""
_SETTLE: Final = """
set -e
mount -t tmpfs none /var/lib
mkdir /var/lib/tmp
mount --rbind /tmp /var/lib/tmp
mount -t tmpfs none /tmp
for each; do
    mkdir -p "$each"
    mount --rbind "/var/lib$each" "$each"
done
umount --lazy /var/lib/tmp
rmdir /var/lib/tmp
exec sh -c "$0"
"""
_EMPTY: Final = """
mkdir -p /var/lib/kubelet/device-plugins
plugbay() { "$PYTHON" -m plugbay "$@"; }
"""
_KUBELET: Final = """
import asyncio
from pathlib import Path
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet

async def main():
    async with fake_kubelet(KubeletPaths(Path("/var/lib/kubelet"))) as kubelet:
        print("kubelet is up", flush=True)
        while True:
            print((await kubelet.next_attempt()).resource_name, flush=True)

asyncio.run(main())
"""
WITH_KUBELET: Final = f"""
"$PYTHON" -c '{_KUBELET}' > /tmp/kubelet &
until grep -q up /tmp/kubelet; do sleep 0.05; done
"""
"""The beginning of a script on a machine where a kubelet answers, too; what registers there is in /tmp/kubelet."""


_WORKS: Final = shutil.which("unshare") is not None and (
    subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0
)
needs_kubelet_machine: Final = pytest.mark.skipif(not _WORKS, reason="needs unshare, and root or user namespaces")
"""Marks a test that runs scripts on such a machine."""


_NO_ENGINES: Final = Path(__file__).parent / "no_engines"
"""Engines that do not work: the cgroups of containers would outlive the machine."""


async def on_kubelet_machine(script: str, *, timeout_s: float = SCRIPT_S) -> Done:
    """Run a shell script there, with `plugbay` as a command. All that it started ends with it."""
    environ = {key: value for key, value in os.environ.items() if key not in ("PLUGBAY_ROOT", "XDG_STATE_HOME")}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *_UNSHARE,
        "sh",
        "-c",
        _SETTLE,
        _EMPTY + script,
        *_KEPT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env={**environ, "PYTHON": sys.executable, "HOME": "/var/lib/home", "PATH": f"{_NO_ENGINES}:{environ['PATH']}"},
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())
