"""The fake library as other programs see it, through nvidia-ml-py."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import CompilerUnusable
from plugbay.plugins.nvidia.survey import MigMinors
from plugbay.testing.fakenvml import (
    IDLE,
    READY,
    FakeFabric,
    FakeFault,
    FakeMachine,
    FakeProcess,
    a100_nvswitch,
    compile_library,
    dgx1,
    fake_driver,
    h100_mig,
    in_mig_mode,
    lay_out_driver,
    lay_out_machine,
    lay_out_tegra,
    lay_out_wsl,
    t4,
)
from tests.contract.rigs.nvidia import DEADLINE_S, ask_nvml, environ_of

FUNCTIONS = """
    nvmlInit nvmlInit_v2 nvmlInitWithFlags nvmlShutdown nvmlErrorString nvmlSystemGetDriverVersion
    nvmlSystemGetCudaDriverVersion nvmlSystemGetCudaDriverVersion_v2 nvmlSystemGetNVMLVersion nvmlSystemGetProcessName
    nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetHandleByUUID nvmlDeviceGetHandleByPciBusId_v2
    nvmlDeviceGetName nvmlDeviceGetUUID nvmlDeviceGetIndex nvmlDeviceGetMinorNumber nvmlDeviceGetPciInfo_v3
    nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetCudaComputeCapability nvmlDeviceGetMigMode
    nvmlDeviceGetMaxMigDeviceCount nvmlDeviceGetMigDeviceHandleByIndex nvmlDeviceIsMigDeviceHandle
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle nvmlDeviceGetAttributes_v2 nvmlDeviceGetGpuInstanceId
    nvmlDeviceGetComputeInstanceId nvmlDeviceGetGpuInstanceById nvmlGpuInstanceGetInfo
    nvmlGpuInstanceGetComputeInstanceById nvmlComputeInstanceGetInfo_v2 nvmlDeviceGetGpuInstanceProfileInfo
    nvmlDeviceGetGpuInstanceProfileInfoV nvmlGpuInstanceGetComputeInstanceProfileInfo
    nvmlGpuInstanceGetComputeInstanceProfileInfoV nvmlDeviceGetTopologyCommonAncestor nvmlDeviceGetNvLinkState
    nvmlDeviceGetNvLinkRemotePciInfo_v2 nvmlEventSetCreate nvmlEventSetFree nvmlEventSetWait_v2
    nvmlDeviceGetSupportedEventTypes nvmlDeviceRegisterEvents nvmlDeviceGetGpuFabricInfo nvmlDeviceGetGpuFabricInfoV
    nvmlDeviceGetAddressingMode nvmlDeviceGetUtilizationRates nvmlDeviceGetTemperature nvmlDeviceGetPowerUsage
    nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3
""".split()
DESCRIBE = """
def gpu(index):
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid, pci = nvml.nvmlDeviceGetUUID(device), nvml.nvmlDeviceGetPciInfo(device)
    by_uuid, by_bus = nvml.nvmlDeviceGetHandleByUUID(uuid), nvml.nvmlDeviceGetHandleByPciBusId(pci.busId)
    assert nvml.nvmlDeviceGetIndex(by_uuid) == nvml.nvmlDeviceGetIndex(by_bus) == index
    memory, second = nvml.nvmlDeviceGetMemoryInfo(device), nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2)
    assert (memory.total, memory.used, memory.free) == (second.total, second.used, second.free)
    return {
        "uuid": uuid,
        "name": nvml.nvmlDeviceGetName(device),
        "bus_id": pci.busId,
        "pci": [pci.domain, pci.bus, pci.device, pci.pciDeviceId, pci.pciSubSystemId, pci.busIdLegacy],
        "minor": nvml.nvmlDeviceGetMinorNumber(device),
        "memory": [memory.total, memory.used],
        "compute_capability": list(nvml.nvmlDeviceGetCudaComputeCapability(device)),
        "temperature": nvml.nvmlDeviceGetTemperature(device, 0),
        "power": nvml.nvmlDeviceGetPowerUsage(device),
        "ecc": nvml.nvmlDeviceGetTotalEccErrors(device, 1, 0),
        "links": sum(state(device, link) for link in range(36)),
    }

def state(device, link):
    try:
        return nvml.nvmlDeviceGetNvLinkState(device, link)
    except nvml.NVMLError:
        return 0

answer = {
    "driver": nvml.nvmlSystemGetDriverVersion(),
    "cuda": nvml.nvmlSystemGetCudaDriverVersion(),
    "gpus": [gpu(index) for index in range(nvml.nvmlDeviceGetCount())],
}
"""
MIG = """
device = nvml.nvmlDeviceGetHandleByIndex(0)
answer = {"mode": nvml.nvmlDeviceGetMigMode(device), "devices": [], "profiles": []}
for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
    try:
        mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, slot)
    except nvml.NVMLError_NotFound:
        continue
    uuid = nvml.nvmlDeviceGetUUID(mig)
    assert nvml.nvmlDeviceIsMigDeviceHandle(mig) and not nvml.nvmlDeviceIsMigDeviceHandle(device)
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml.nvmlDeviceGetHandleByUUID(uuid))
    assert nvml.nvmlDeviceGetUUID(parent) == nvml.nvmlDeviceGetUUID(device)
    attributes = nvml.nvmlDeviceGetAttributes_v2(mig)
    instance = nvml.nvmlDeviceGetGpuInstanceById(device, nvml.nvmlDeviceGetGpuInstanceId(mig))
    compute = nvml.nvmlGpuInstanceGetComputeInstanceById(instance, nvml.nvmlDeviceGetComputeInstanceId(mig))
    info = nvml.nvmlComputeInstanceGetInfo_v2(compute)
    profile = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, info.profileId, 0)
    assert profile.sliceCount == attributes.computeInstanceSliceCount
    answer["devices"].append([slot, uuid, nvml.nvmlGpuInstanceGetInfo(instance).profileId, attributes.memorySizeMB,
        attributes.multiprocessorCount, attributes.gpuInstanceSliceCount, nvml.nvmlDeviceGetMemoryInfo(mig).total])
for index in range(18):
    try:
        first = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, index, version=1)
        second = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, index)
    except nvml.NVMLError_NotSupported:
        continue
    assert (first.id, first.memorySizeMB) == (second.id, second.memorySizeMB)
    answer["profiles"].append([index, first.id, first.sliceCount, first.memorySizeMB, str(second.name)])
"""


def test_all_functions_that_clients_look_up_are_exported(nvml_library: Path) -> None:
    """By nvidia-device-plugin 0.20, gpu-feature-discovery 0.20 and nvidia-ml-py."""
    loaded = ctypes.CDLL(str(nvml_library))
    assert [name for name in FUNCTIONS if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("make", READY.values(), ids=READY)
async def test_ready_machines_are_shown_as_described(make: Callable[[], FakeMachine], nvml_library: Path) -> None:
    machine = make()
    async with fake_driver(machine, library=nvml_library) as driver:
        seen = await ask_nvml(DESCRIBE, environ_of(driver))
    assert (seen["driver"], seen["cuda"]) == (machine.driver_version, machine.cuda_version)
    assert len(seen["gpus"]) == len(machine.gpus)
    for gpu, shown in zip(machine.gpus, seen["gpus"], strict=True):
        assert shown == {
            "uuid": gpu.uuid,
            "name": gpu.name,
            "bus_id": gpu.bus_id,
            "pci": [0, int(gpu.bus_id[9:11], 16), 0, gpu.pci_device_id, gpu.pci_subsystem_id, gpu.bus_id[4:]],
            "minor": gpu.minor,
            "memory": [gpu.memory_bytes, IDLE["memory_used_bytes"]],
            "compute_capability": list(gpu.compute_capability),
            "temperature": IDLE["temperature_c"],
            "power": IDLE["power_mw"],
            "ecc": 0,
            "links": len(gpu.nvlinks),
        }


async def test_mig_devices_and_profiles_are_found_by_every_way_there_is(nvml_library: Path) -> None:
    gpu = in_mig_mode(a100_nvswitch().gpus[0], "3g.20gb", "1g.5gb", "1g.10gb")
    assert gpu.mig is not None
    async with fake_driver(FakeMachine((gpu,)), library=nvml_library) as driver:
        seen = await ask_nvml(MIG, environ_of(driver))
    assert seen["mode"] == [1, 1]
    ids = {profile.index: profile.id for profile in gpu.mig.profiles}
    assert seen["devices"] == [
        [
            each.slot,
            each.uuid,
            ids[each.profile],
            each.memory_mib,
            each.multiprocessors,
            each.gpu_slices,
            each.memory_mib << 20,
        ]
        for each in gpu.mig.devices
    ]
    assert seen["profiles"] == [
        [each.index, each.id, each.slices, each.memory_mib, f"MIG {each.name}"] for each in gpu.mig.profiles
    ]


async def test_topology_and_links_are_those_of_the_machine(nvml_library: Path) -> None:
    script = """
devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
answer = {
    "levels": [[None if a is b else nvml.nvmlDeviceGetTopologyCommonAncestor(a, b) for b in devices] for a in devices],
    "remotes": [nvml.nvmlDeviceGetNvLinkRemotePciInfo(devices[0], link).busId for link in range(6)],
}
"""
    machine = dgx1()
    async with fake_driver(machine, library=nvml_library) as driver:
        seen = await ask_nvml(script, environ_of(driver))
    assert seen["levels"] == [list(row) for row in machine.topology]
    assert seen["remotes"] == [link.remote for link in machine.gpus[0].nvlinks]


async def test_processes_and_the_fabric_are_shown(nvml_library: Path) -> None:
    script = """
import ctypes, struct
device = nvml.nvmlDeviceGetHandleByIndex(0)
fabric, second = (ctypes.c_uint8 * 28)(), (ctypes.c_uint8 * 36)()  # whole structs: older bindings declare others
nvml.nvmlDeviceGetGpuFabricInfo(device, ctypes.byref(fabric))
nvml.nvmlDeviceGetGpuFabricInfoV(device, ctypes.byref(second))
assert bytes(second)[4:29] == bytes(fabric)[:25]
uuid, status, clique, state = struct.unpack("<16sIIB", bytes(fabric)[:25])
answer = {
    "processes": [[p.pid, p.usedGpuMemory] for p in nvml.nvmlDeviceGetComputeRunningProcesses(device)],
    "name": nvml.nvmlSystemGetProcessName(7),
    "fabric": [uuid.hex(), clique, state, status],
}
"""
    processes = (FakeProcess(7, "train", 1 << 30), FakeProcess(8, "draw", 1 << 20, kind="graphics"))
    fabric = FakeFabric("0a0b0c0d-0000-1111-2222-333344445555", 9)
    machine = t4().with_gpu(0, processes=processes, fabric=fabric)
    async with fake_driver(machine, library=nvml_library) as driver:
        seen = await ask_nvml(script, environ_of(driver))
    assert seen["processes"] == [[7, 1 << 30]]
    assert seen["name"] in ("train", b"train".hex())
    assert seen["fabric"] == ["0a0b0c0d000011112222333344445555", 9, 3, 0]


async def test_a_description_file_is_enough(nvml_library: Path) -> None:
    """Programs beside no Python take the machine from the file, and read it at each start of the library."""
    script = """
answer = [nvml.nvmlDeviceGetCount()]
nvml.nvmlShutdown()
"""
    async with fake_driver(h100_mig(), library=nvml_library) as driver:
        environ = {**os.environ, **driver.environ}
        del environ["PLUGBAY_FAKE_NVML_CONTROL"]
        assert await ask_nvml(script, environ) == [8]
        await driver.replace(t4())
        assert await ask_nvml(script, environ) == [1]
        assert driver.clients == 0


@pytest.mark.parametrize("text", ["", "{", '{"gpus": [}', "[" * 1000, '{"a": "\\u12"}', "nul"])
async def test_a_broken_description_is_told_and_refused(text: str, tmp_path: Path, nvml_library: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent), "PLUGBAY_FAKE_NVML": str(path)}
    with pytest.raises(AssertionError, match="which is not JSON"):
        await ask_nvml("answer = 0", environ)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (FakeFault("nvmlDeviceGetName", result=15), "GPU is lost"),
        (FakeFault(result=3), "Not Supported"),
        (FakeFault("nvmlDeviceGetName", gpu="GPU-other", result=15), ""),
        (FakeFault("nvmlDeviceGetUUID", result=15), ""),
    ],
    ids=["a function", "all functions", "another GPU", "another function"],
)
async def test_calls_fail_as_ordered(fault: FakeFault, told: str, nvml_library: Path) -> None:
    script = """
try:
    nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(0))
    answer = ""
except nvml.NVMLError as error:
    answer = str(error)
"""
    async with fake_driver(t4(), library=nvml_library) as driver:
        await driver.misbehave(fault)
        assert await ask_nvml(script, environ_of(driver)) == told


async def test_calls_kill_their_process_as_ordered(nvml_library: Path) -> None:
    async with fake_driver(t4(), library=nvml_library) as driver:
        await driver.misbehave(FakeFault("nvmlDeviceGetCount", signal=signal.SIGSEGV))
        program = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceGetCount()"
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environ_of(driver))
        assert await process.wait() == -signal.SIGSEGV


async def test_a_program_sees_changes_while_it_runs(nvml_library: Path) -> None:
    """It prints after each line that it is given."""
    program = """
import sys, pynvml as nvml
nvml.nvmlInit()
device = nvml.nvmlDeviceGetHandleByIndex(0)
for _ in sys.stdin:
    try:
        print(nvml.nvmlDeviceGetTemperature(device, 0), flush=True)
    except nvml.NVMLError as error:
        print(error, flush=True)
        if error.value == nvml.NVML_ERROR_UNINITIALIZED:
            nvml.nvmlShutdown()
            nvml.nvmlInit()
"""
    pipe = asyncio.subprocess.PIPE
    async with fake_driver(t4(), library=nvml_library) as driver:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env=environ_of(driver), stdin=pipe, stdout=pipe
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def look() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"\n")
            return (await process.stdout.readline()).decode().strip()

        seen = [await look()]
        await driver.replace(driver.machine.with_gpu(0, measurements={**IDLE, "temperature_c": 80}))
        seen.append(await look())
        await driver.lose(0)
        seen.append(await look())
        await driver.restore(0)
        seen.append(await look())
        await driver.reload("560.1")
        seen += [await look(), await look()]
        assert seen == ["31", "80", "GPU is lost", "80", "Uninitialized", "80"]
        assert driver.clients == 1
        process.stdin.close()
        assert await process.wait() == 0


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerUnusable, match=r"none of cc, gcc, clang is installed.*install gcc and libc6-dev"):
        compile_library(tmp_path)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho stdio.h: not found >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(CompilerUnusable, match=r"status 1: stdio\.h: not found"):
        compile_library(tmp_path)


def test_files_of_a_machine_are_laid_out(tmp_path: Path) -> None:
    machine = h100_mig()
    lay_out_machine(tmp_path, machine)
    lay_out_driver(tmp_path, machine.driver_version)
    minors = MigMinors.parse((tmp_path / "proc/driver/nvidia-caps/mig-minors").read_text())
    mig = machine.gpus[2].mig
    assert mig is not None
    first = mig.devices[0]
    gpu_instance = minors.gpu_instances[2, first.gpu_instance]
    compute_instance = minors.compute_instances[2, first.gpu_instance, 0]
    access = tmp_path / f"proc/driver/nvidia/capabilities/gpu2/mig/gi{first.gpu_instance}/ci0/access"
    assert access.read_text().startswith(f"DeviceFileMinor: {compute_instance}\n")
    names = {path.relative_to(tmp_path / "dev").as_posix() for path in (tmp_path / "dev").rglob("nvidia*")}
    assert {"nvidia7", "nvidiactl", "nvidia-uvm", f"nvidia-caps/nvidia-cap{gpu_instance}"} <= names
    pci = tmp_path / "sys/bus/pci/devices/0000:bd:00.0"
    assert [(pci / name).read_text().strip() for name in ("numa_node", "class", "vendor", "device")] == [
        *("1", "0x030200", "0x10de", "0x2330")
    ]
    assert (pci / "config").read_bytes()[:4] == bytes.fromhex("de103023")
    assert (tmp_path / "usr/lib64/libcuda.so").resolve().name == f"libcuda.so.{machine.driver_version}"


def test_minors_are_numbered_as_a_driver_does_it(tmp_path: Path) -> None:
    lay_out_machine(tmp_path, replace(t4(), gpus=a100_nvswitch().gpus[:2]))
    minors = MigMinors.parse((tmp_path / "proc/driver/nvidia-caps/mig-minors").read_text())
    assert (minors.gpu_instances[0, 7], minors.compute_instances[1, 2, 3]) == (3 + 7 * 9, 3 + (15 + 2) * 9 + 1 + 3)


def test_look_alikes_of_tegra_and_wsl_are_files(tmp_path: Path) -> None:
    lay_out_tegra(tmp_path / "tegra")
    lay_out_wsl(tmp_path / "wsl")
    assert (tmp_path / "tegra/etc/nv_tegra_release").exists()
    assert (tmp_path / "tegra/sys/devices/soc0/family").read_text() == "Tegra\n"
    assert (tmp_path / "wsl/dev/dxg").exists()
    assert (tmp_path / "wsl/usr/lib/wsl/lib/libdxcore.so").exists()


KILLED_AT_THE_END = """
import asyncio, os, subprocess, sys
from pathlib import Path
from plugbay.testing.fakenvml import fake_driver, t4

async def main():
    async with fake_driver(t4(), library=Path(sys.argv[1])) as driver:
        program = "import pynvml, time; pynvml.nvmlInit(); time.sleep(60)"
        environ = {**os.environ, **driver.environ}
        process = subprocess.Popen([sys.executable, "-c", program], env=environ)
        while not driver.clients:
            await asyncio.sleep(0.01)
        process.kill()
        process.wait()

asyncio.run(main())
"""


def test_a_loop_that_ends_just_after_a_program_was_killed_ends_in_silence(nvml_library: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_THE_END, str(nvml_library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stderr == ""
