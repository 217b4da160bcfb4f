"""When a plugin is told of the end of a container that containerd runs, and that its pod's devices are free."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.kernel.cgroups import hierarchies
from tests.e2e.bench_cri import PROC, Node, cgroups
from tests.e2e.images import BUSYBOX
from tests.e2e.test_oci_release import TOLD, told

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


async def test_plugin_is_told_after_the_end_and_before_the_next_start(node: Node, tmp_path: Path) -> None:
    up = node.up("--feature-gates", "DeviceManagerDeallocate=true")
    # A pod's own cgroup goes when its sandbox has been stopped.
    sandboxes = [f"{root}/{cgroups(node.root)}" for root in hierarchies(proc_root=PROC)]
    assert await told(node, up, tmp_path, sandboxes=sandboxes, image=BUSYBOX) == TOLD
