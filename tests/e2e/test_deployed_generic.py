"""The generic plugin in the pod of a DaemonSet: it sees the node's devices without rights, and pods get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import needs_private_machine, private_machine
from tests.e2e.containerd import Containerd
from tests.e2e.deployed import DAEMON_SET, IMAGE, Cluster, needs_kubectl, on_containerd, printed_for
from tests.e2e.test_deployed_oci import NETWORKS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="this machine has no /dev/fuse"),
]
FUSE: Final = "example.com/fuse"
LICENCE: Final = "example.com/licence"
CONFIG: Final = """
domain: example.com
devices:
  - name: fuse
    paths: [/dev/fuse]
    count: 5
  - name: licence
    tokens: 2
"""
ZERO: Final = """
  - name: zero
    match: {subsystem: mem, name: zero}
"""
HIDING: Final = f"""
{CONFIG}
  - name: release
    paths: [{{path: /usr/lib/os-release, type: Mount, mountPath: /os-release}}]
"""
"""A rule about a file in a directory that the plugin's container has itself."""
OPEN: Final = """
import os, time
fd = os.open("/dev/fuse", os.O_RDWR)
print("opened", sorted(name for name in os.listdir("/dev") if name in ("fuse", "kvm", "loop0", "mem")), flush=True)
time.sleep(1000)
"""


def user(name: str, **limits: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["/usr/bin/python3", "-c", OPEN],
        "resources": {"limits": {f"example.com/{each}": count for each, count in limits.items()}},
    }
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def gives_pods_devices_of_its_node(cluster: Cluster, directory: Path, config: str) -> None:
    """Roll the plugin out, give a pod a device, and grow the config while the pod runs.

    Args:
        directory: for the config.
    """
    file = directory / "devices.yaml"
    file.write_text(config)
    words = ("generic", f"--config={file}", "--name", DAEMON_SET)
    await cluster.kubectl("apply", "-f", "-", given=await printed_for(*words))
    await cluster.wait(f"resource={FUSE}=5")
    await cluster.wait(f"resource={LICENCE}=2")
    if config == HIDING:
        await cluster.wait("resource=example.com/release=1")
    await cluster.kubectl("apply", "-f", "-", given=json.dumps(user("reader", fuse="1", licence="1")))
    await cluster.wait_in_log("reader", "opened ['fuse']\n")
    file.write_text(f"{config}{ZERO}")
    await cluster.kubectl("apply", "-f", "-", given=await printed_for(*words))
    await cluster.wait("resource=example.com/zero=1")
    reader = json.loads(await cluster.kubectl("get", "pod", "reader", "-o", "json"))
    containers = reader["status"]["containerStatuses"]
    assert [(each["ready"], each["restartCount"]) for each in containers] == [(True, 0)]
    await cluster.kubectl("delete", "pod", "reader")


@needs_kubectl
@needs_private_machine
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("config", [CONFIG, HIDING], ids=["root", "host"])
async def test_the_generic_plugin_in_a_daemon_set_serves_a_node_with_oci(
    image: Path, tmp_path: Path, config: str
) -> None:
    async with private_machine() as machine:
        cluster = Cluster(machine.enter)
        async with cluster.up("--runtime", "oci", "--oci-rootfs", str(image / "root"), *NETWORKS):
            await gives_pods_devices_of_its_node(cluster, tmp_path, config)


@needs_kubectl
async def test_the_generic_plugin_in_a_daemon_set_serves_a_node_with_containerd(
    engine: Containerd, image: Path, tmp_path: Path
) -> None:
    async with on_containerd(engine, image) as cluster:
        await gives_pods_devices_of_its_node(cluster, tmp_path, CONFIG)
