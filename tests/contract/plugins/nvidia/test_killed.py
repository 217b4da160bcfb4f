"""SIGKILL of worker, plugin and node at each step: all comes back, pods keep their GPUs, and none is given twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from plugbay.testing.fakenvml import FakeFault, a100_nvswitch, h100_mig, in_mig_mode, lay_out_machine
from tests.contract.conftest import Plugbay
from tests.contract.rigs.gpu_node import until
from tests.contract.rigs.gpu_pods import KilledParts, Victim, killed_parts, until_equal

GPUS = 8


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "machine"


each_victim = pytest.mark.parametrize("victim", Victim, ids=lambda victim: victim.value)


async def until_whole(parts: KilledParts) -> None:
    """Wait until plugin and node offer all GPUs again."""
    await parts.pods.has("nvidia.com/gpu", GPUS)


async def assert_none_is_given_twice(parts: KilledParts, *held: list[str]) -> None:
    """A pod of all GPUs that are left gets exactly those."""
    given = [uuid for each in held for uuid in each]
    assert len(given) == len(set(given))
    rest = await parts.pods.run("rest", count=GPUS - len(given))
    assert sorted([*rest, *given]) == sorted(gpu.uuid for gpu in parts.pods.driver.machine.gpus)


@each_victim
async def test_killed_before_registering(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    async with killed_parts(plugbay, nvml_library, a100_nvswitch(), root, "--fail-on-init-error=false") as parts:
        driver = parts.pods.driver
        await driver.misbehave(FakeFault("nvmlDeviceGetName", hang=True))
        await parts.start_plugin()
        await until(lambda: driver.clients)  # it looks at the machine
        await parts.kill(victim)
        await driver.misbehave()
        await until_whole(parts)
        await assert_none_is_given_twice(parts)


@each_victim
async def test_killed_when_registered(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    async with killed_parts(plugbay, nvml_library, a100_nvswitch(), root) as parts:
        await parts.start_plugin()
        await until_whole(parts)
        await parts.kill(victim)
        await until_whole(parts)
        pair = await parts.pods.run("pair", count=2)
        await assert_none_is_given_twice(parts, pair)


@each_victim
async def test_killed_during_allocate(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    """The plugin is stopped when the node asks it; the pod runs or is refused, and holds its GPUs or none."""
    async with killed_parts(plugbay, nvml_library, a100_nvswitch(), root) as parts:
        await parts.start_plugin()
        await until_whole(parts)
        pair = await parts.pods.run("pair", count=2)
        stopped = parts.plugin_pid
        os.kill(stopped, signal.SIGSTOP)
        await parts.pods.apply("late", count=3)
        await parts.kill(victim)
        if victim is not Victim.PLUGIN:
            os.kill(stopped, signal.SIGCONT)
        await until_whole(parts)
        late = await ended_or_visible(parts, "late")
        assert len(late) in (0, 3)
        assert await parts.pods.visible("pair") == pair
        await assert_none_is_given_twice(parts, pair, late)


@each_victim
async def test_killed_while_pods_run(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    async with killed_parts(plugbay, nvml_library, a100_nvswitch(), root) as parts:
        await parts.start_plugin()
        await until_whole(parts)
        pair, one = await parts.pods.run("pair", count=2), await parts.pods.run("one")
        before = await parts.pods.container("pair")
        for _ in range(2):
            await parts.kill(victim)
            await until_whole(parts)
        assert await parts.pods.visible("pair") == pair
        assert await parts.pods.container("pair") == before, "the container was not touched"
        await until_equal(lambda: parts.pods.held("one"), {one[0]: "Healthy"})
        await assert_none_is_given_twice(parts, pair, one)


@each_victim
async def test_killed_during_a_change_of_mig(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    model = h100_mig()
    async with killed_parts(plugbay, nvml_library, model, root, "--mig-strategy=mixed") as parts:
        pods = parts.pods
        await parts.start_plugin()
        await pods.has("nvidia.com/mig-3g.40gb", 3)
        [held] = await pods.run("three", "nvidia.com/mig-3g.40gb")
        fresh = in_mig_mode(model.gpus[5], "4g.40gb", "3g.40gb")
        assert fresh.mig is not None
        await pods.driver.set_mig(5, fresh.mig)
        await parts.kill(victim)
        lay_out_machine(root, pods.driver.machine)
        await pods.has("nvidia.com/mig-4g.40gb", 1)
        await pods.has("nvidia.com/mig-3g.40gb", 4)
        assert await pods.visible("three") == [held]
        rest = await pods.run("rest", "nvidia.com/mig-3g.40gb", count=3)
        assert len({held, *rest}) == 4
        assert await pods.run("four", "nvidia.com/mig-4g.40gb") == [fresh.mig.devices[0].uuid]


@each_victim
async def test_killed_during_an_xid(plugbay: Plugbay, nvml_library: Path, root: Path, victim: Victim) -> None:
    """A plugin that starts anew knows nothing of an XID from before, as NVIDIA's; worker and node lose none."""
    async with killed_parts(plugbay, nvml_library, a100_nvswitch(), root) as parts:
        await parts.start_plugin()
        await until_whole(parts)
        pair = await parts.pods.run("pair", count=2)
        sick = {pair[0]: "Unhealthy", pair[1]: "Healthy"}
        while await parts.pods.held("pair") != sick:  # until the plugin watches
            await parts.pods.driver.xid(pair[0], 79)
        await parts.kill(victim)
        well = dict.fromkeys(pair, "Healthy")
        wanted = well if victim is Victim.PLUGIN else sick
        await parts.pods.has("nvidia.com/gpu", GPUS if victim is Victim.PLUGIN else GPUS - 1)
        await until_equal(lambda: parts.pods.held("pair"), wanted)
        await parts.pods.driver.reload()
        await until_whole(parts)
        await until_equal(lambda: parts.pods.held("pair"), well)
        await assert_none_is_given_twice(parts, pair)


async def ended_or_visible(parts: KilledParts, name: str) -> list[str]:
    """The GPUs that a pod sees once it runs; none when it was refused."""
    phase = await until_settled(parts, name)
    return await parts.pods.visible(name) if phase == "Running" else []


async def until_settled(parts: KilledParts, name: str) -> str:
    phases: list[str] = []

    async def is_settled() -> bool:
        phases.append((await parts.pods.status(name))["phase"])
        return phases[-1] in ("Running", "Failed")

    await until_equal(is_settled, True)
    return phases[-1]
