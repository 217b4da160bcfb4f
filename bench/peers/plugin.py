"""A plugin process with many devices on two NUMA nodes: ``python -m bench.peers.plugin KIND COUNT ROOT``.

``plain``, ``pair`` (the same devices under two resource names), ``preferring``, ``releasing`` and ``cleaning`` (which
want Deallocate, and PostStopContainer too) are made with our SDK and serve until SIGTERM. ``flipping`` turns one device
unhealthy or healthy again for each line of input, and prints the moment at which it sent its list.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.assignments import Assignment
from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.process.runner import serve
from plugbay.testing.fakes.plugin import fake_plugin
from plugbay.wire.device_list import encode_devices

RESOURCE: Final = "example.com/unit"
OTHER: Final = "example.com/other"
NUMA_NODES: Final = 2


class Plain(DevicePlugin):
    """Devices with an environment variable each, and no optional hook."""

    resource_name = RESOURCE

    def __init__(self, count: int) -> None:
        self._devices = devices(count)

    def discover(self) -> list[Device]:
        return self._devices


class Other(Plain):
    """The same of another resource."""

    resource_name = OTHER


class Preferring(Plain):
    def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device]:
        """The last ones."""
        return available[-size:]


class Releasing(Plain):
    """Clean at once."""

    async def release(self, assignment: Assignment) -> None:
        return None


class Cleaning(Releasing):
    async def post_stop(self, assignment: Assignment) -> None:
        return None


def devices(count: int) -> list[Device]:
    return [device(number) for number in range(count)]


def device(number: int, *, is_healthy: bool = True) -> Device:
    name = f"unit-{number:05}"
    health = HEALTHY if is_healthy else unhealthy("Flipped")
    return Device(name, health=health, numa_nodes=[number % NUMA_NODES], env={"UNIT": name})


async def flip(count: int, paths: KubeletPaths) -> None:
    listed = devices(count)
    middle = count // 2
    lists = [
        encode_devices([*listed[:middle], device(middle, is_healthy=is_healthy), *listed[middle + 1 :]])
        for is_healthy in (False, True)
    ]
    async with fake_plugin(RESOURCE, paths.device_plugins / "flipping.sock", listed) as plugin:
        await plugin.register(paths.registration_socket)
        turn = 0
        while await asyncio.to_thread(sys.stdin.readline):
            plugin.send_raw(lists[turn % 2])
            turn += 1
            print(json.dumps({"sent": time.monotonic()}), flush=True)


async def main(kind: str, count: int, root: Path) -> None:
    paths = KubeletPaths(root)
    match kind:
        case "plain":
            await serve([Plain(count)], paths=paths)
        case "pair":
            await serve([Plain(count), Other(count)], paths=paths)
        case "preferring":
            await serve([Preferring(count)], paths=paths)
        case "releasing":
            await serve([Releasing(count)], paths=paths)
        case "cleaning":
            await serve([Cleaning(count)], paths=paths)
        case "flipping":
            await flip(count, paths)
        case _:
            raise ValueError(kind)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
