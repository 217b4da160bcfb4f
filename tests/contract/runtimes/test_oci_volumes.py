"""Volumes of real containers: nothing that a pod does in them reaches the host or other users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import why_not
from tests.unit.pods.running.test_sub_paths import exchange, exchanging

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(120),
]

OCI = ("--runtime", "oci")


def a_container(name: str, script: str, *mounts: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "command": ["sh", "-c", script], "volumeMounts": [{"name": "v", **each} for each in mounts]}


async def run_pod(plugbay: Plugbay, name: str, *containers: dict[str, Any]) -> Path:
    """Returns where its volume lies."""
    spec = {"containers": containers, "volumes": [{"name": "v", "emptyDir": {}}], "terminationGracePeriodSeconds": 1}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    done = await plugbay("pod", "run", "-f", "-", given=json.dumps(pod))
    assert done.code == 0, done
    uid: str = json.loads((await plugbay("pod", "get", name, "-o", "json")).out)["metadata"]["uid"]
    return plugbay.root / "pods" / uid / "volumes/kubernetes.io~empty-dir/v"


def mounted(plugbay: Plugbay) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(plugbay.root / "pods") in line]


async def test_container_that_exchanges_a_sub_path_never_gets_a_directory_of_the_host(plugbay: Plugbay) -> None:
    host = plugbay.root / "host"
    host.mkdir()
    readers = [
        a_container(f"b{n}", "touch /in/mark; sleep 600", {"mountPath": "/in", "subPath": "s"}) for n in range(2)
    ]
    prepare = f"mkdir -p /v/s && ln -s {host} /v/evil && echo ready; sleep 600"
    async with plugbay.node_up(*OCI):
        volume = await run_pod(plugbay, "first", a_container("a", prepare, {"mountPath": "/v"}), *readers)
        await plugbay.until_running("first")
        async with plugbay.start("pod", "logs", "first", "-c", "a", "-f") as log:
            await plugbay.line_with(log, "ready")
        with exchanging(volume / "s", volume / "evil") as turns:
            # Each reader ends and is started again, while the race goes on.
            for reader in readers:
                await plugbay("pod", "exec", "first", "-c", reader["name"], "--", "kill", "-9", "-1")
            await plugbay("pod", "get", "first")  # by now the last reader's start was tried as well
            assert turns() > 0
        if (volume / "s").is_symlink():
            exchange(volume / "s", volume / "evil")
        await plugbay.until_running("first")
        assert (await plugbay("pod", "delete", "first")).code == 0  # what started has touched its mark
        assert list(host.iterdir()) == []
    assert mounted(plugbay) == []
    assert host.is_dir()


async def test_sub_path_outlives_a_killed_node_and_goes_with_its_pod(plugbay: Plugbay) -> None:
    host = plugbay.root / "host"
    host.mkdir()
    reader = a_container("b", "echo up; exec sleep 600", {"mountPath": "/in", "subPath": "s"})
    async with plugbay.node_up(*OCI) as node:
        volume = await run_pod(plugbay, "p", reader)
        await plugbay.until_running("p")
        (volume / "evil").symlink_to(host)
        exchange(volume / "s", volume / "evil")
        node.kill()
        await node.wait()
    assert len(mounted(plugbay)) == 1
    async with plugbay.node_up(*OCI):
        assert (await plugbay("pod", "exec", "p", "--", "touch", "/in/mark")).code == 0
        assert (volume / "evil/mark").exists(), "what was the sub-path when the container started"
        assert list(host.iterdir()) == []
        assert (await plugbay("pod", "delete", "p")).code == 0
        assert mounted(plugbay) == []
        assert list((plugbay.root / "pods").iterdir()) == []


async def test_set_user_id_program_of_a_container_is_worth_nothing_on_the_host(plugbay: Plugbay) -> None:
    plugbay.root.chmod(0o755)
    script = (
        "cp /bin/dash /v/sh && chmod 4755 /v/sh && mknod /v/node c 1 3; grep ' /v ' /proc/self/mountinfo; sleep 600"
    )
    async with plugbay.node_up(*OCI):
        volume = await run_pod(plugbay, "p", a_container("a", script, {"mountPath": "/v"}))
        await plugbay.until_running("p")
        async with plugbay.start("pod", "logs", "p", "-f") as log:
            flags = (await plugbay.line_with(log, " /v ")).split()[5].split(",")
        assert {"nosuid", "nodev"} <= set(flags)
        assert (volume / "sh").stat().st_mode & 0o7777 == 0o4755
        assert as_nobody("sh", "-c", f"exec {volume / 'sh'} -c 'id -u'").returncode != 0
        assert as_nobody("ls", str(volume)).returncode != 0
        for name in ("pods", "oci", "state"):
            assert as_nobody("ls", str(plugbay.root / name)).returncode != 0, name


def as_nobody(*argv: str) -> subprocess.CompletedProcess[bytes]:
    assert shutil.which("setpriv"), "Debian's util-linux has it"
    user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    return subprocess.run([*user, *argv], capture_output=True, check=False, env={"PATH": os.environ["PATH"]})
