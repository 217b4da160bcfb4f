"""A machine with fake NVIDIA GPUs, our plugin of them, and a kubelet that it registers with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.backoff import Delays
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.mps.readiness import MpsReadiness
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.process.node_labels import ThisNode
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakenvml import FakeDriver, FakeFault, FakeMachine, fake_driver, lay_out_machine
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of

OFTEN = "--rescan-interval=200ms"


@dataclass(slots=True)
class GpuNode:
    """The parts of the rig."""

    driver: FakeDriver
    kubelet: FakeKubelet
    source: NvidiaSource
    look_again: Callable[[], None]
    root: Path

    async def resource(self, name: str = "nvidia.com/gpu") -> RegisteredPlugin:
        """Wait for the registration of a resource."""
        while True:
            plugin = await self.kubelet.next_registration()
            if plugin.registration.resource_name == name:
                return plugin

    def lay_out(self) -> None:
        """Bring the machine's files up to its GPUs."""
        lay_out_machine(self.root, self.driver.machine)


async def until(holds: Callable[[], object], *, seconds: float = DEADLINE_S) -> None:
    """Wait until something holds that nothing tells of."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  # of which nothing tells
            await asyncio.sleep(0.005)


def unhealthy(plugin: RegisteredPlugin) -> dict[str, str]:
    """The devices that are not healthy, each with the reason."""
    return {device.id: device.reason for device in plugin.devices.values() if not device.is_healthy}


async def watched(node: GpuNode, plugin: RegisteredPlugin | None = None) -> RegisteredPlugin:
    """The plugin, once its devices are listed and the driver's events are followed."""
    found = plugin if plugin is not None else await node.resource()
    await until(lambda: found.devices)
    await until(lambda: node.source.health.is_watching)
    return found


@asynccontextmanager
async def gpu_node(
    machine: FakeMachine,
    directory: Path,
    library: Path,
    *flags: str,
    variables: Mapping[str, str] | None = None,
    node: ThisNode | None = None,
    mps: MpsReadiness | None = None,
    has_nodes: bool = False,
    faults: Sequence[FakeFault] = (),
    **nvml: float | Delays,
) -> AsyncIterator[GpuNode]:
    """A kubelet and our plugin, in this process, with a driver that shows ``machine``.

    Args:
        has_nodes: whether the machine has real device nodes, which the test has to be allowed to make.
        faults: of the driver, from the start on.
    """
    root = directory / "machine"
    lay_out_machine(root, machine, with_device_nodes=has_nodes)
    async with fake_driver(machine, library=library, root=root) as driver:
        await driver.misbehave(*faults)
        environ = environ_of(driver)
        words = ("--driver-root-ctr-path=/", OFTEN, *flags)
        arguments, environment = parse_flags(words, variables or {})
        settings = NodeSettings(arguments, environment, {**environ, **(variables or {})}, root, directory / "cdi")
        asked = NvmlSettings(driver_root=Path("/"), sys_root=root / "sys", environ=environ, **nvml)  # type: ignore[arg-type]
        source = NvidiaSource(settings, asked, node, mps)
        paths = KubeletPaths(directory / "k")
        async with fake_kubelet(paths) as kubelet, serving([source], paths=paths) as look_again:
            yield GpuNode(driver, kubelet, source, look_again, root)
