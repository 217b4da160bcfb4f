"""A copy of this machine's files for one test: packages are installed there, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MOUNTING: Final = """
set -e
mount -t tmpfs overlay "$0"
mkdir "$0/upper" "$0/work" "$0/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" "$0/root"
for each in proc sys dev; do mount --rbind "/$each" "$0/root/$each"; done
mount -t tmpfs run "$0/root/run"
mount -t tmpfs tmp "$0/root/tmp"
mkdir -p "$0/root/var/lib/kubelet"
mount --bind "$1" "$0/root/var/lib/kubelet"
echo mounted
exec sleep infinity
"""
_CLEAN: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
DEADLINE_S: Final = 120


class OverlaidMachine:
    """The files of this machine, and over them what a test changes. Mounts are in a namespace that ends with it.

    Attributes:
        root: its root directory, for processes in `namespace`.
        upper: what was changed, as seen there.
        namespace: the words before a command that is to see it.
    """

    def __init__(self, base: Path, holder: int) -> None:
        self.root = base / "root"
        self.upper = base / "upper"
        self.namespace = ("nsenter", f"--mount=/proc/{holder}/ns/mnt", "--")

    def run(self, *words: str, fails: bool = False) -> str:
        """Run a command in it as root; returns what it printed."""
        command = [*self.namespace, "chroot", str(self.root), *words]
        done = subprocess.run(
            command, env=_CLEAN, cwd="/", capture_output=True, text=True, check=False, timeout=DEADLINE_S
        )
        assert (done.returncode != 0) == fails, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def put(self, path: str, text: str) -> None:
        self.run("sh", "-c", 'printf %s "$1" > "$0"', path, text)

    def changed(self) -> set[str]:
        """The files that were made or changed, directories left out; those that were removed are no files either."""
        found = subprocess.run(
            [*self.namespace, "find", str(self.upper), "-type", "f,l", "-printf", "/%P\\n"],
            capture_output=True,
            text=True,
            check=True,
            timeout=DEADLINE_S,
        )
        return set(found.stdout.splitlines())


@contextmanager
def overlaid_machine(base: Path, kubelet: Path) -> Iterator[OverlaidMachine]:
    """Open a machine whose ``/var/lib/kubelet`` is the directory ``kubelet``."""
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", _MOUNTING, str(base), str(kubelet)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mounted\n"
        yield OverlaidMachine(base, holder.pid)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()


def why_not() -> str:
    """Why there is no such machine here; empty if there is."""
    if os.geteuid() != 0:
        return "needs root, for mounts"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if done.returncode == 0 else "this machine gives root no namespaces"
