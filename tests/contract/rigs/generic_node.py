"""A machine of files below a directory, the generic plugin of it, and a kubelet that it registers with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.plugins.generic.serving.settings import GenericSettings
from plugbay.plugins.generic.serving.source import GenericSource
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet

DEADLINE_S = 30


@dataclass(slots=True)
class GenericNode:
    """The parts of the rig.

    Attributes:
        root: of the machine's files.
        look_again: what SIGHUP does.
    """

    root: Path
    source: GenericSource
    kubelet: FakeKubelet
    look_again: Callable[[], None]

    async def resource(self, name: str) -> RegisteredPlugin:
        """Wait for the registration of a resource."""
        while True:
            plugin = await self.kubelet.next_registration()
            if plugin.registration.resource_name == name:
                return plugin

    def add(self, path: str) -> None:
        """Add a file to the machine."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    def remove(self, path: str) -> None:
        (self.root / path.lstrip("/")).unlink()


@asynccontextmanager
async def generic_node(
    directory: Path,
    config: GenericConfig | Callable[[], GenericConfig],
    *files: str,
    file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> AsyncIterator[GenericNode]:
    """A kubelet and the plugin, in this process, on a machine that has ``files``.

    Args:
        config: or what reads it.
        file: where it comes from.
        root: of the true machine's files, instead of a directory.
    """
    if root is None:
        root = directory / "machine"
        for name in ("dev", "sys"):
            (root / name).mkdir(parents=True, exist_ok=True)
    for path in files:
        (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (root / path.lstrip("/")).touch()
    load = config if callable(config) else lambda: config
    source = GenericSource(GenericSettings(load, file, root, variables or {}))
    paths = KubeletPaths(directory / "k")
    async with (
        fake_kubelet(paths) as kubelet,
        serving([source], paths=paths, cdi_directory=directory / "cdi") as look_again,
    ):
        yield GenericNode(root, source, kubelet, look_again)


def unhealthy(plugin: RegisteredPlugin) -> dict[str, str]:
    """The devices that are not healthy, each with the reason."""
    return {device.id: device.reason for device in plugin.devices.values() if not device.is_healthy}


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that nothing tells of."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110  # of which nothing tells
            await asyncio.sleep(0.005)


def ids(*names: str) -> list[DeviceId]:
    return [DeviceId(name) for name in names]
