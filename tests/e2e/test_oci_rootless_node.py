"""A whole node that an ordinary user runs: its containers are root in a user namespace, and nobody else is."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import plugbay as package
from plugbay.kernel.cgroups import hierarchies
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.runtimes.test_oci_rootless import AS_NOBODY, NOBODY, why_not_rootless

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not_rootless()), reason=why_not_rootless()),
    pytest.mark.timeout(120),
]

PLUGIN = """
from plugbay import Device, DeviceNode, plugin

@plugin("example.com/node")
def nodes():
    node = DeviceNode("/dev/zero", container_path="/dev/plugged")
    yield Device("zero", env={"WHICH": "zero"}, device_nodes=[node])
"""


def opened_up() -> str:
    """A script that gives its own view of the machine, where everybody reaches the interpreter and this package.

    They may lie where only root can look, as below its home; of such a directory nothing but them is there then.
    """
    needed = [Path(each) for each in dict.fromkeys((sys.base_prefix, sys.prefix, package.__path__[0]))]
    closed = {path: directory for path in needed if (directory := closed_directory(path)) is not None}
    if not closed:
        return 'exec "$@"'
    kept = [(path, f"/mnt/{number}") for number, path in enumerate(closed)]
    lines = ["mount -t tmpfs none /mnt"]
    lines += [f"mkdir {place} && mount --rbind {shlex.quote(str(path))} {place}" for path, place in kept]
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(each))}" for each in sorted(set(closed.values()))]
    for path, place in kept:
        quoted = shlex.quote(str(path))
        lines.append(f"mkdir -p {quoted} && mount --rbind {place} {quoted}")
    return " && ".join((*lines, 'exec "$@"'))


def closed_directory(path: Path) -> Path | None:
    """The highest directory on the way to ``path`` that only its owner may pass."""
    return next((each for each in [path, *path.parents][::-1] if not each.stat().st_mode & stat.S_IXOTH), None)


class Place:
    """Where the user keeps what is theirs; root looks on."""

    def __init__(self, directory: Path) -> None:
        self.plugbay = Plugbay(directory / "root")
        self._home = directory

    @asynccontextmanager
    async def running(self, *argv: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """``plugbay`` with the user's rights."""
        view = ("unshare", "--mount", "--propagation", "private", "sh", "-c", opened_up(), "sh")
        command = (sys.executable, "-m", "plugbay", "--root", str(self.plugbay.root), *argv)
        process = await asyncio.create_subprocess_exec(
            *view,
            *AS_NOBODY,
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            cwd=self._home,
            env={**os.environ, "HOME": str(self._home), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()

    @asynccontextmanager
    async def node(self) -> AsyncIterator[asyncio.subprocess.Process]:
        async with self.running("node", "up", "--name", "n1", "--runtime", "oci", "--log-level", "warning") as process:
            await self.plugbay.line_with(process, "SIGTERM or Ctrl-C stops the node and leaves its pods running")
            try:
                yield process
            except BaseException:
                await self.plugbay("pod", "delete", "--all", "--force")
                raise

    async def run(self, name: str, script: str, **spec: Any) -> None:
        main = {"name": "main", "command": ["sh", "-c", script], **spec.pop("container", {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [main], **spec}}
        done = await self.plugbay("pod", "run", "-f", "-", given=json.dumps(pod))
        assert done.code == 0, done

    async def until_event(self, text: str) -> None:
        async with asyncio.timeout(DEADLINE_S), self.plugbay.start("events", "-w") as watch:
            await self.plugbay.line_with(watch, text)


@pytest.fixture
def place(sockets: Path) -> Iterator[Place]:
    sockets.chmod(0o755)
    (sockets / "root").mkdir()
    os.chown(sockets / "root", NOBODY, NOBODY)
    (sockets / "plugin.py").write_text(PLUGIN)
    yield Place(sockets)
    root = sockets / "root"
    files = [each for each in (root / "oci").rglob("*") if not each.is_relative_to(root / "oci/etc")]
    assert not [each for each in files if not each.is_dir() and each.stat().st_size]
    assert str(root) not in Path("/proc/self/mountinfo").read_text()
    assert not [each for each in hierarchies(proc_root=Path("/proc")) if list(each.glob(f"*{root.parent.name}*"))]
    owners = {each.lstat().st_uid for each in root.rglob("*")}
    assert owners <= {NOBODY}, "nobody else made anything there"


async def test_ordinary_user_runs_pods_with_devices_and_a_later_node_adopts_them(place: Place) -> None:
    plugbay = place.plugbay
    note = {"volumeMounts": [{"name": "notes", "mountPath": "/tmp/notes"}]}
    resources = {"limits": {"example.com/node": 1, "memory": "64Mi"}}
    writes = "id -u; cat /proc/self/uid_map > /tmp/notes/map"
    init = {"name": "first", "command": ["sh", "-c", writes], **note}
    script = "hostname; head -c 2 /dev/plugged | od -An -tx1; echo $WHICH; cat /tmp/notes/map; echo told; sleep 600"
    async with place.node() as process:
        async with place.running("serve", str(plugbay.root.parent / "plugin.py"), "--log-level", "error"):
            spec = {"volumes": [{"name": "notes", "emptyDir": {}}], "initContainers": [init], "hostname": "gopher-host"}
            await place.run("web", script, container={**note, "resources": resources}, **spec)
            await plugbay.until_running("web")
        async with plugbay.start("pod", "logs", "-f", "web", "-c", "main") as log:
            await plugbay.line_with(log, "told")
        assert (await plugbay("pod", "logs", "web", "-c", "first")).out == "0\n"
        words = (await plugbay("pod", "logs", "web", "-c", "main")).out.split()
        assert words == ["gopher-host", "00", "00", "zero", "0", str(NOBODY), "1", "told"]
        process.kill()
        await process.wait()
    async with place.node() as process:
        (row,) = (await plugbay("pod", "get", "web")).rows
        assert (row[2], row[3]) == ("Running", "0"), "it runs on, and was not started again"
        command = ("sh", "-c", "id -u; cat /tmp/notes/map; touch /usr/x || echo refused; exit 3")
        done = await plugbay("pod", "exec", "web", "-c", "main", "--", *command)
        assert (done.code, done.out.split()) == (3, ["0", "0", str(NOBODY), "1", "refused"])
        assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
        process.terminate()
        await process.wait()


async def test_what_takes_more_rights_is_refused_in_a_sentence(place: Place) -> None:
    plugbay = place.plugbay
    async with place.node() as process:
        await place.run("all", "true", hostPID=True)
        await place.until_event("spec.hostPID: a node without root rights")
        await place.run("other", "true", securityContext={"runAsUser": 1000})
        await place.until_event("a node without root rights knows one user")
        assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
        process.terminate()
        await process.wait()
