"""The plugin of a DaemonSet on a node with crun or runc, in the image's file system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import BINARIES, needs_private_machine, private_machine
from tests.e2e.deployed import SHELF, SOURCE, Cluster, needs_kubectl, printed_for, serves_its_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.skipif(bool(why_not()), reason=why_not())]
GROUP: Final = 64055
NETWORKS: Final = ("--cni-conf-dir", str(SOURCE / "examples/cni"), "--cni-bin-dir", str(BINARIES))


@needs_kubectl
@needs_private_machine
async def test_a_plugin_in_a_daemon_set_serves_the_node_that_runs_it(image: Path, tmp_path: Path) -> None:
    async with private_machine() as machine:
        cluster = Cluster(machine.enter)
        options = ("--runtime", "oci", "--oci-rootfs", str(image / "root"), *NETWORKS)
        async with cluster.up(*options):
            await serves_its_node(cluster, tmp_path)
        await machine.text("mkdir", "-p", "/run/netns", "/var/lib/cni/results", "/var/lib/cni/networks")
        assert await machine.leavings() == ()


@needs_kubectl
@needs_private_machine
async def test_a_plugin_that_is_not_root_serves_where_the_node_lets_its_group(image: Path) -> None:
    printed = await printed_for("directory", f"--resource={SHELF}", "--path=/var/lib/shelf", "--env=SHELF")
    [daemon_set] = yaml.safe_load_all(printed)
    template = daemon_set["spec"]["template"]["spec"]
    template["containers"][0]["securityContext"] |= {"runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": True}
    async with private_machine() as machine:
        cluster = Cluster(machine.enter)
        options = ("--runtime", "oci", "--oci-rootfs", str(image / "root"), *NETWORKS)
        async with cluster.up(*options, "--plugins-group", str(GROUP)):
            await cluster.run("sh", "-c", "mkdir /var/lib/shelf && touch /var/lib/shelf/a")
            for name, groups in (("stranger", []), ("member", [GROUP])):
                security = template["securityContext"] | {"supplementalGroups": groups}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
                pod["spec"] = template | {"securityContext": security}
                await cluster.kubectl("apply", "-f", "-", given=json.dumps(pod))
                expected = (
                    "device-plugins: not writable by this user" if name == "stranger" else "registered with the kubelet"
                )
                await cluster.wait_in_log(name, expected)
            await cluster.wait(f"resource={SHELF}=1")
            await cluster.kubectl("delete", "pod", "stranger", "member", "--force")
