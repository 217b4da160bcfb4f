"""The plugin of a DaemonSet on a node with containerd, in the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.containerd import Containerd
from tests.e2e.deployed import needs_kubectl, on_containerd, serves_its_node

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@needs_kubectl
async def test_a_plugin_in_a_daemon_set_serves_the_node_that_runs_it(
    engine: Containerd, image: Path, tmp_path: Path
) -> None:
    async with on_containerd(engine, image) as cluster:
        await serves_its_node(cluster, tmp_path)
