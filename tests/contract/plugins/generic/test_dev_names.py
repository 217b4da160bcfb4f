"""Files of smarter-device-manager on a machine with device nodes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.plugins.generic.config.reading import read_config
from plugbay.wire.convert import edits_to_pb
from tests.contract.rigs.generic_node import generic_node, unhealthy, until

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")]

RULES = read_config("- devicematch: ^snd$\n  nummaxdevices: 2\n", source="conf.yaml")
SOUND = "smarter-devices/snd"


def sound(sockets: Path) -> Path:
    node = sockets / "machine/dev/snd/seq"
    node.parent.mkdir(parents=True)
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(116, 1))
    return node


async def test_a_directory_is_given_while_it_has_a_node(sockets: Path) -> None:
    node = sound(sockets)
    async with generic_node(sockets, RULES) as machine:
        plugin = await machine.resource(SOUND)
        await until(lambda: len(plugin.devices) == 2)
        answer = await plugin.client.allocate([min(plugin.devices)])
        assert answer is not None
        assert answer.edits.device_nodes == (DeviceNode("/dev/snd", container_path="/dev/snd", permissions="rw"),)
        node.unlink()
        await until(lambda: len(unhealthy(plugin)) == 2)


async def test_what_a_pod_has_of_smarter_device_manager_does_not_keep_others_from_it(sockets: Path) -> None:
    """Its IDs are single characters, of which the first are control characters."""
    sound(sockets)
    checkpoint = KubeletPaths(sockets / "k").checkpoint
    checkpoint.parent.mkdir(parents=True)
    edits = edits_to_pb(ContainerEdits(device_nodes=(DeviceNode("/dev/snd"),))).SerializeToString()
    checkpoint.write_bytes(encode(CheckpointData([PodDevicesEntry("pod", "main", SOUND, {-1: ["\x00"]}, edits)])))
    async with generic_node(sockets, RULES) as machine:
        plugin = await machine.resource(SOUND)
        await until(lambda: len(plugin.devices) == 2 and not unhealthy(plugin))
