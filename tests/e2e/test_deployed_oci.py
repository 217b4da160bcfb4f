"""The plugin of a DaemonSet on a node with crun or runc, in the image's file system."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import BINARIES, needs_private_machine, private_machine
from tests.e2e.deployed import SOURCE, Cluster, needs_kubectl, serves_its_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240), pytest.mark.skipif(bool(why_not()), reason=why_not())]
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
