"""Registrations of GPUs: kubelets that come anew, signals, sockets that vanish, several streams."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakenvml import FakeDriver, a100_nvswitch, fake_driver, lay_out_machine, t4
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.gpu_node import OFTEN, gpu_node, unhealthy, until, watched
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of


class Served:
    """The command beside a kubelet."""

    def __init__(self, kubelet: FakeKubelet, driver: FakeDriver, process: asyncio.subprocess.Process) -> None:
        self.kubelet = kubelet
        self.driver = driver
        self.process = process

    @property
    def sockets(self) -> list[str]:
        """The plugin's sockets."""
        entries = self.kubelet.paths.device_plugins.iterdir()
        return [each.name for each in entries if each.is_socket() and each.name != "kubelet.sock"]

    async def until_listed(self) -> None:
        """Wait for the next registration, and for all GPUs in its list."""
        plugin = await self.kubelet.next_registration()
        await until(lambda: set(plugin.devices) == {gpu.uuid for gpu in self.driver.machine.gpus})


@asynccontextmanager
async def served(plugbay: Plugbay, library: Path, *flags: str) -> AsyncIterator[Served]:
    machine = a100_nvswitch()
    root = plugbay.root / "machine"
    lay_out_machine(root, machine)
    command = ("serve", "nvidia", "--driver-root-ctr-path=/", f"--machine-root={root}", OFTEN, *flags)
    async with fake_driver(machine, library=library) as driver, fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        async with plugbay.start(*command, env=environ_of(driver), stderr=asyncio.subprocess.DEVNULL) as process:
            yield Served(kubelet, driver, process)


async def test_scenario_103_a_kubelet_that_comes_anew_is_registered_with(sockets: Path, nvml_library: Path) -> None:
    """The old stream ends, and an XID from before is in the first list of the new one."""
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        old = await watched(node)
        await node.driver.xid(2, 79)
        await until(lambda: unhealthy(old))
        await node.kubelet.restart()
        await old.until_ended()
        fresh = await node.resource()
        await until(lambda: fresh.devices)
        assert fresh.socket != old.socket
        assert len(fresh.devices) == len(machine.gpus)
        assert unhealthy(fresh) == {machine.gpus[2].uuid: "Xid79"}


async def test_scenario_104_sighup_registers_again(plugbay: Plugbay, nvml_library: Path) -> None:
    async with served(plugbay, nvml_library) as plugin:
        await plugin.until_listed()
        for _ in range(3):
            plugin.process.send_signal(signal.SIGHUP)
            await plugin.until_listed()
        assert len(plugin.sockets) == 1
        assert plugin.process.returncode is None


async def test_scenario_105_a_socket_that_is_deleted_is_made_anew_and_other_files_change_nothing(
    sockets: Path, nvml_library: Path
) -> None:
    """The reference notices neither, and is lost when its own socket is deleted."""
    async with gpu_node(t4(), sockets, nvml_library) as node:
        old = await watched(node)
        (old.socket.parent / "other.sock").touch()
        (old.socket.parent / "other.sock").unlink()
        old.socket.unlink()
        fresh = await node.resource()
        await until(lambda: fresh.devices)
        assert node.kubelet.unasked_registrations == 0
        assert len(node.kubelet.attempts) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_scenario_107_a_signal_ends_it_and_its_sockets_go(
    plugbay: Plugbay, nvml_library: Path, number: signal.Signals
) -> None:
    async with served(plugbay, nvml_library) as plugin:
        await plugin.until_listed()
        plugin.process.send_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            assert await plugin.process.wait() == 0
        assert plugin.sockets == []
        await until(lambda: plugin.driver.clients == 0)


async def test_scenario_100_every_stream_hears_of_an_xid(sockets: Path, nvml_library: Path) -> None:
    """The reference tells one of two streams, which may be the one that is dead."""
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        one = await watched(node)
        other = RegisteredPlugin(one.registration, one.socket)
        await other.dial()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(other.follow())
            await until(lambda: other.devices)
            await node.driver.xid(1, 79)
            for stream in (one, other):
                await until(lambda stream=stream: unhealthy(stream) == {machine.gpus[1].uuid: "Xid79"})  # type: ignore[misc]
            following.cancel()
