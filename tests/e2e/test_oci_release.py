"""When a plugin is told that a real container has ended, and that its pod's devices are free."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from glob import glob
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.conftest import Plugbay, plugbay
from tests.contract.rigs.oci import why_not

__all__ = ["plugbay"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(120),
]

PLUGIN: Final = """
import fcntl
from glob import glob
from pathlib import Path
from plugbay import Assignment, Device, DevicePlugin, Mount

BASE, SANDBOXES = Path(%r), %r

class Gophers(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self) -> list[Device]:
        return [Device("g1", mounts=[Mount(BASE, container_path="/gopher")])]

    def post_stop(self, assignment: Assignment) -> None:
        tell("post_stop")

    def release(self, assignment: Assignment) -> None:
        beside = " beside a sandbox" if any(map(glob, SANDBOXES)) else ""
        tell(f"release as the {assignment.origin.value} says{beside}")

def tell(hook: str) -> None:
    with (BASE / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            container = "ended"
        except BlockingIOError:
            container = "running"
    with (BASE / "told").open("a") as told:
        told.write(f"{hook}: container {container}\\n")
"""
SCRIPT: Final = """
exec 9>>/gopher/lock; flock 9
echo $HOSTNAME starts >> /gopher/told
echo starts
read word < /gopher/go
"""


TOLD: Final = [
    "first starts",
    "post_stop: container ended",
    "first starts",
    "post_stop: container ended",
    "release as the kubelet says: container ended",
    "next starts",
]
"""After the end and before the next start: of a container, and of a pod, for whose device the next pod waits."""


def pod(name: str, **fields: Any) -> str:
    limits = {"limits": {"example.com/gopher": "1"}}
    main = {"name": "main", "command": ["sh", "-c", SCRIPT], "resources": limits, **fields}
    metadata, spec = {"name": name}, {"containers": [main]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def done(plugbay: Plugbay, *argv: str, **given: Any) -> None:
    result = await plugbay(*argv, **given)
    assert result.code == 0, result


async def until_started(plugbay: Plugbay, name: str) -> None:
    await done(plugbay, "pod", "wait", "--for=condition=Ready", name, "--timeout=28s")
    async with plugbay.start("pod", "logs", "-f", name) as log:
        await plugbay.line_with(log, "starts")


async def told(
    plugbay: Plugbay,
    node_up: AbstractAsyncContextManager[object],
    base: Path,
    *,
    sandboxes: Sequence[str],
    **fields: Any,
) -> list[str]:
    """What containers and hooks tell of a pod whose container is restarted once, and of the next pod with its device.

    Args:
        base: an empty directory.
        sandboxes: patterns of what is there as long as a pod has a sandbox.
        fields: of the container.
    """
    (base / "plugin.py").write_text(PLUGIN % (str(base), list(sandboxes)))
    os.mkfifo(base / "go")
    # Both ends, so that nobody waits for the other; one word is there, of which the first container ends.
    with (base / "go").open("r+b", buffering=0) as words:
        words.write(b"go\n")
        async with node_up, plugbay.start("serve", str(base / "plugin.py")) as serving:
            await done(plugbay, "pod", "apply", "-f", "-", given=pod("first", **fields))
            again = "jsonpath={.status.containerStatuses[0].restartCount}=1"
            await done(plugbay, "pod", "wait", f"--for={again}", "first", "--timeout=28s")
            await until_started(plugbay, "first")
            assert any(map(glob, sandboxes)), "what shows a sandbox shows this one"
            await done(plugbay, "pod", "apply", "-f", "-", given=pod("next", **fields))
            await done(plugbay, "pod", "delete", "first", "--now")
            await until_started(plugbay, "next")
            lines = (base / "told").read_text().splitlines()
            await done(plugbay, "pod", "delete", "next", "--now")
            serving.terminate()
            await serving.wait()
    return lines


async def test_plugin_is_told_after_the_end_and_before_the_next_start(plugbay: Plugbay, tmp_path: Path) -> None:
    up = plugbay.node_up("--runtime", "oci", "--feature-gates", "DeviceManagerDeallocate=true")
    assert await told(plugbay, up, tmp_path, sandboxes=[str(plugbay.root / "oci/sandboxes/*.json")]) == TOLD
