"""Scratch disks and CDI devices in real containers, which see nothing of the host but what they are given."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.plugins.test_scratch import LOOPS, SUCCEEDED, can_make_loop_devices
from tests.contract.rigs.oci import why_not

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]

OCI = ("--runtime", "oci")
PLUGIN = """
from plugbay import Device, DeviceNode, Mount, plugin

@plugin("vendor.example/gopher", cdi_kind="vendor.example/gopher")
def gophers():
    for name in ("g1", "g2"):
        mounts = [Mount("/etc", container_path="/mnt", read_only=True)]
        nodes = [DeviceNode("/dev/null", container_path=f"/dev/{name}")]
        yield Device(name, env={"GOPHERS": name}, device_nodes=nodes, mounts=mounts)
"""


async def output(plugbay: Plugbay, name: str, script: str, resource: str, count: int = 1) -> str:
    """What a container with devices writes until it ends."""
    manifest = f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    command: [sh, -c, {json.dumps(script)}]
    resources: {{limits: {{{resource}: {count}}}}}
"""
    assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
    waited = await plugbay("pod", "wait", SUCCEEDED, name)
    assert waited.code == 0, (await plugbay("pod", "describe", name)).out
    return (await plugbay("pod", "logs", name)).out


async def test_containers_get_what_the_spec_says(plugbay: Plugbay, tmp_path: Path) -> None:
    specs, file = tmp_path / "cdi", tmp_path / "gophers.py"
    file.write_text(PLUGIN)
    serve = ("serve", "--cdi-directory", str(specs), str(file))
    look = "echo $GOPHERS; ls -d /dev/g* /mnt/hostname"
    async with (
        plugbay.node_up(*OCI, "--cdi-spec-dirs", str(specs)),
        plugbay.start(*serve, stderr=asyncio.subprocess.DEVNULL),
    ):
        one = await output(plugbay, "one", look, "vendor.example/gopher")
        assert one.split() == ["g1", "/dev/g1", "/mnt/hostname"]
        two = await output(plugbay, "two", look, "vendor.example/gopher", 2)
        assert two.split() == ["g1,g2", "/dev/g1", "/dev/g2", "/mnt/hostname"]


@pytest.mark.skipif(not can_make_loop_devices(), reason="needs /dev/loop-control")
async def test_second_container_cannot_read_what_the_first_one_wrote(plugbay: Plugbay, tmp_path: Path) -> None:
    options = ("--resource", "example.com/scratch", "--directory", str(tmp_path / "disks"), "--size", "1Mi")
    serve = ("serve", "scratch", *options, "--count", "1", "--release-interval", "500ms")
    write = "echo $SCRATCH_DEVICES; printf secret > $SCRATCH_DEVICES && head -c 6 $SCRATCH_DEVICES"
    read = r"tr -d '\000' < $SCRATCH_DEVICES | wc -c"
    try:
        async with plugbay.node_up(*OCI), plugbay.start(*serve, stderr=asyncio.subprocess.DEVNULL):
            assert await output(plugbay, "one", write, "example.com/scratch") == "/dev/scratch/disk0\nsecret"
            assert await output(plugbay, "two", read, "example.com/scratch") == "0\n"
    finally:
        for loop in LOOPS.of(tmp_path / "disks" / "disk0"):
            LOOPS.detach(loop)
