"""What a kubelet's node did, done again by ours: a difference is either a fault or named in `tests.replay.check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.rigs.oci import why_not
from tests.replay.beds import PROCESSES, oci_bed
from tests.replay.check import ON_CONTAINERS, RECORDINGS, check
from tests.replay.manifests import manifest_of


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_a_kubelets_node_does_the_same(path: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await check(path, PROCESSES, sockets, monkeypatch)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", ON_CONTAINERS)
async def test_a_kubelets_node_does_the_same_with_oci_containers(
    path: Path, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check(path, oci_bed(), sockets, monkeypatch)


def test_a_command_without_a_shell_is_replayed_as_it_is() -> None:
    made = manifest_of("p", {"containers": [{"name": "main", "command": ["sleep", "100000"]}]}, speed=9)
    assert made["spec"]["containers"][0]["command"] == ["sleep", "100000"]
