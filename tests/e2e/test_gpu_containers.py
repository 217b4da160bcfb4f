"""Containers of `plugbay serve nvidia` see exactly the GPUs that their pods hold, whatever carries them there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.testing.fakenvml import FakeMachine, a100_nvswitch, fake_driver, lay_out_driver, lay_out_machine
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.gpu_node import OFTEN
from tests.contract.rigs.nvidia import environ_of, nvml_library
from tests.contract.rigs.oci import why_not

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PYTHON: Final = str(Path(sys.executable).resolve())
LOOK: Final = """
import errno, glob, json, os, stat

def opened(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return "yes"
    except OSError as error:  # ENXIO: it may be opened, and this machine has no driver of that number
        return "yes" if error.errno == errno.ENXIO else errno.errorcode[error.errno]

def numbers(path):
    return [os.major(os.stat(path).st_rdev), os.minor(os.stat(path).st_rdev)]

nodes = [path for path in sorted(glob.glob("/dev/nvidia*")) if stat.S_ISCHR(os.stat(path).st_mode)]
made = {}
for minor in range(8):
    os.mknod(f"/dev/made{minor}", stat.S_IFCHR | 0o600, os.makedev(195, minor))
    made[minor] = opened(f"/dev/made{minor}")
    os.unlink(f"/dev/made{minor}")
print(json.dumps({
    "visible": os.environ.get("NVIDIA_VISIBLE_DEVICES"),
    "nodes": {path: [*numbers(path), opened(path)] for path in nodes},
    "made": made,
    "libraries": sorted(os.path.basename(path) for path in glob.glob("/usr/lib64/libcuda.so*")),
}))
"""
CONTROL: Final = ("nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")
LISTED: Final = ("--device-list-strategy=envvar", "--pass-device-specs")
"""UUIDs in a variable, and device nodes in the answer."""
CDI: Final = ("--device-list-strategy=cdi-cri", "--cdi-feature-flags=self-contained")
STRATEGIES: Final = [pytest.param(LISTED, id="envvar"), pytest.param(CDI, id="cdi-cri")]


@dataclass(frozen=True)
class GpuMachine:
    """A node with a plugin of eight GPUs."""

    plugbay: Plugbay
    machine: FakeMachine

    async def apply(self, name: str, gpus: int) -> None:
        """Ask for a pod."""
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        resources = {"limits": limits}
        container = {"name": "main", "image": "none", "command": ["sleep", "1000"], "resources": resources}
        spec = {"containers": [container], "hostNetwork": True, "terminationGracePeriodSeconds": 1}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        done = await self.plugbay("pod", "run", "-f", "-", given=json.dumps(manifest))
        assert done.code == 0, done

    async def run(self, name: str, gpus: int) -> None:
        """Run a pod to where its container runs."""
        await self.apply(name, gpus)
        waited = await self.plugbay("pod", "wait", name, "--for=condition=Ready", "--timeout", f"{DEADLINE_S}s")
        assert waited.code == 0, (await self.plugbay("pod", "describe", name)).out

    async def held(self, name: str) -> set[str]:
        """The UUIDs of the GPUs that the node gave to a pod."""
        found: dict[str, Any] = json.loads((await self.plugbay("pod", "get", name, "-o", "json")).out)
        status = found["status"]["containerStatuses"][0].get("allocatedResourcesStatus", [])
        return {each["resourceID"] for of in status for each in of["resources"]}

    async def sees(self, name: str) -> dict[str, Any]:
        """The GPUs in the eyes of a process in the pod's container."""
        done = await self.plugbay("pod", "exec", name, "--", PYTHON, "-I", "-S", "-c", LOOK)
        assert done.code == 0, done
        seen: dict[str, Any] = json.loads(done.out)
        return seen

    def minors(self, uuids: set[str]) -> set[int]:
        return {gpu.minor for gpu in self.machine.gpus if gpu.uuid in uuids}


@asynccontextmanager
async def gpu_machine(plugbay: Plugbay, library: Path, runtime: str, *flags: str) -> AsyncIterator[GpuMachine]:
    machine = a100_nvswitch()
    root, cdi = plugbay.root / "machine", plugbay.root / "cdi"
    lay_out_machine(root, machine, with_device_nodes=os.geteuid() == 0)
    lay_out_driver(root, machine.driver_version, library)
    roots = (f"--machine-root={root}", "--driver-root-ctr-path=/", f"--driver-root={root}", f"--dev-root={root}")
    command = ("serve", "nvidia", *roots, f"--cdi-directory={cdi}", OFTEN, "--log-level", "warning", *flags)
    async with fake_driver(machine, library=library) as driver:
        specs = ("--cdi-spec-dirs", str(cdi)) if runtime == "oci" else ()
        async with plugbay.node_up("--runtime", runtime, *specs):
            async with plugbay.start(*command, env=environ_of(driver)) as plugin:
                done = await plugbay("node", "wait", "--for=resource=nvidia.com/gpu=8", "--timeout", f"{DEADLINE_S}s")
                assert done.code == 0, done
                yield GpuMachine(plugbay, machine)
                assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
                plugin.terminate()
                async with asyncio.timeout(DEADLINE_S):
                    assert await plugin.wait() == 0


@pytest.fixture
def plugbay(sockets: Path) -> Plugbay:
    return Plugbay(sockets)


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("flags", STRATEGIES)
async def test_a_container_sees_its_gpus_and_no_other(
    plugbay: Plugbay, nvml_library: Path, flags: tuple[str, ...]
) -> None:
    async with gpu_machine(plugbay, nvml_library, "oci", *flags) as machine:
        for name, count in (("one", 1), ("two", 2), ("none", 0)):
            await machine.run(name, count)
        given = [await machine.held(name) for name in ("one", "two")]
        assert [len(each) for each in given] == [1, 2]
        assert not given[0] & given[1]
        for name, held in zip(("one", "two"), given, strict=True):
            seen, minors = await machine.sees(name), machine.minors(held)
            gpus = {f"/dev/nvidia{minor}": [195, minor, "yes"] for minor in minors}
            shown = {path: node for path, node in seen["nodes"].items() if path.removeprefix("/dev/") not in CONTROL}
            assert shown == gpus
            assert set(seen["nodes"]) - set(gpus) == {f"/dev/{each}" for each in CONTROL}
            # The cgroup, and not only what lies in /dev, keeps it from the others.
            allowed = {int(minor) for minor, opened in seen["made"].items() if opened == "yes"}
            assert allowed == minors
            assert {opened for minor, opened in seen["made"].items() if int(minor) not in minors} == {"EPERM"}
            if flags is CDI:
                assert seen["visible"] == "void", "the toolkit's older way has nothing to do"
                assert "libcuda.so.1" in seen["libraries"]
            else:
                assert set(seen["visible"].split(",")) == held
        nothing = await machine.sees("none")
        assert (nothing["visible"], nothing["nodes"]) == (None, {})
        assert set(nothing["made"].values()) == {"EPERM"}


async def test_a_process_of_the_process_runtime_is_told_its_gpus(plugbay: Plugbay, nvml_library: Path) -> None:
    """Without containers nothing is hidden: the variable is all there is."""
    async with gpu_machine(plugbay, nvml_library, "process", *LISTED) as machine:
        given = []
        for name, count in (("one", 1), ("two", 2)):
            await machine.run(name, count)
            done = await plugbay("pod", "exec", name, "--", "env")
            [told] = [line.partition("=")[2] for line in done.out.splitlines() if line.startswith("NVIDIA_VISIBLE_")]
            given.append(await machine.held(name))
            assert set(told.split(",")) == given[-1]
        assert [len(each) for each in given] == [1, 2]
        assert not given[0] & given[1]


async def test_cdi_devices_are_refused_by_name_where_nothing_can_inject_them(
    plugbay: Plugbay, nvml_library: Path
) -> None:
    async with gpu_machine(plugbay, nvml_library, "process", *CDI) as machine:
        await machine.apply("one", 1)
        async with asyncio.timeout(DEADLINE_S), plugbay.start("events", "-w") as events:
            problem = await plugbay.line_with(events, "CDI device injection failed")
        [uuid] = await machine.held("one")
        assert f"the process runtime cannot inject CDI devices k8s.device-plugin.nvidia.com/gpu={uuid}" in problem
