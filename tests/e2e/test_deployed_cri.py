"""The plugin of a DaemonSet on a node with containerd, in the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.containerd import Containerd
from tests.e2e.deployed import Cluster, needs_kubectl, serves_its_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@needs_kubectl
async def test_a_plugin_in_a_daemon_set_serves_the_node_that_runs_it(
    engine: Containerd, image: Path, tmp_path: Path
) -> None:
    engine.ctr("images", "import", str(image / "plugbay-plugins.tar"))
    cluster = Cluster(engine.enter)
    async with cluster.up("--runtime", "cri", "--cri-socket", str(engine.socket)):
        await serves_its_node(cluster, tmp_path)
    engine.until_no_more_than(0)
    engine.until_nothing_runs()
    assert engine.leavings() == []
