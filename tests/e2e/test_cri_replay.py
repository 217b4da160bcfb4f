"""What a kubelet's node did, done again by ours on a real containerd: the same engine, other hands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.containerd import Containerd
from tests.e2e.images import BUSYBOX
from tests.replay.beds import cri_bed
from tests.replay.check import ON_CONTAINERS, check

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.mark.parametrize("path", ON_CONTAINERS)
async def test_a_kubelets_node_does_the_same(
    path: Path, engine: Containerd, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check(path, cri_bed(engine.socket, engine.base / "cdi", BUSYBOX), sockets, monkeypatch)
    engine.until_no_more_than(0)
