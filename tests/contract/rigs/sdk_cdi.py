"""What tests of plugins with a CDI kind share: a kubelet's root, a directory of specs, and gophers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay import CdiAnswer, ContainerEdits, Device, DeviceNode, DevicePlugin, Mount
from plugbay.cdi.directories import scan
from plugbay.cdi.registry import Registry
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet

KIND = "vendor.example/gopher"
RESOURCE = "vendor.example/gopher"
FILE = "vendor.example-gopher_plugbay.vendor.example_gopher.json"
DEADLINE_S = 20


def gopher(name: str, **more: object) -> Device:
    return Device(
        name,
        env={"GOPHERS": name},
        device_nodes=[DeviceNode("/dev/null", container_path=f"/dev/{name}")],
        mounts=[Mount("/etc", container_path="/opt/gopher", read_only=True)],
        **more,  # type: ignore[arg-type]  # whatever a device takes
    )


class Gophers(DevicePlugin):
    resource_name = RESOURCE
    cdi_kind: str | None = KIND

    def __init__(self, *devices: Device, answer: CdiAnswer = CdiAnswer.NAMES) -> None:
        self.cdi_answer = answer
        self.devices: Iterable[Device] = devices

    def discover(self) -> Iterable[Device]:
        return self.devices


class Machine:
    """A kubelet's root and a directory of specs."""

    def __init__(self, root: Path) -> None:
        self.paths = KubeletPaths(root / "kubelet")
        self.specs = root / "run" / "cdi"
        self.file = self.specs / FILE

    @asynccontextmanager
    async def served(self, *plugins: DevicePlugin) -> AsyncIterator[RegisteredPlugin]:
        """The first plugin's side of the kubelet, its first list read."""
        async with self.kubelet_with(*plugins) as kubelet:
            registered = await kubelet.next_registration()
            await registered.next_list()
            yield registered

    @asynccontextmanager
    async def kubelet_with(self, *plugins: DevicePlugin) -> AsyncIterator[FakeKubelet]:
        async with (
            fake_kubelet(self.paths) as kubelet,
            serving(plugins, paths=self.paths, cdi_directory=self.specs),
        ):
            yield kubelet

    def scan(self) -> Registry:
        return scan([self.specs])

    def names(self) -> list[str]:
        return sorted(name.name for name in self.scan().devices)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for what a plugin does to its files."""
        async with watch_paths([self.file, self.specs]) as changes, asyncio.timeout(DEADLINE_S):
            while not is_so():
                await anext(changes)

    def assign(self, *ids: str, resource: str = RESOURCE) -> None:
        """What the kubelet writes when pods have these devices."""
        entries = [PodDevicesEntry("uid1", "main", resource, {-1: list(ids)})] if ids else []
        self.paths.device_plugins.mkdir(parents=True, exist_ok=True)
        fresh = self.paths.checkpoint.with_suffix(".new")
        fresh.write_bytes(encode(CheckpointData(entries, {})))
        fresh.rename(self.paths.checkpoint)


@pytest.fixture
def machine(sockets: Path) -> Machine:
    return Machine(sockets)


async def allocate(plugin: RegisteredPlugin, *names: str) -> ContainerEdits:
    response = await plugin.client.allocate([DeviceId(name) for name in names])
    assert response is not None
    return response.edits
