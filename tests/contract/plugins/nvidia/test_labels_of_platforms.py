"""Labels of machines whose GPUs NVML does not tell: Tegra by way of CUDA, virtual machines' GPUs by the PCI bus."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from plugbay.errors import DriverUnusable, GpusUnusable
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.labels.discovery import find_labels, load_features
from plugbay.plugins.nvidia.labels.settings import FEATURE_FLAGS, FeatureSettings
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.testing.fakenvml import FakeMachine, fake_driver, find_compiler, lay_out_tegra, t4
from tests.contract.rigs.nvidia import environ_of

CUDA: Final = """
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned flags) {
    const char *way = getenv("FAKE_CUDA");
    if (way && way[0] == 'h') pause();
    if (way && way[0] == 'c') raise(SIGSEGV);
    printf("noise of the driver\\n");
    return way && way[0] == 'f' ? 100 : 0;
}
int cuDriverGetVersion(int *version) { *version = 12060; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Orin"); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)32 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? 8 : 7; return 0; }
"""
UNKNOWN: Final = {
    "nvidia.com/cuda.driver-version.full": "unknown.unknown.unknown",
    "nvidia.com/cuda.driver-version.major": "unknown",
    "nvidia.com/cuda.driver-version.minor": "unknown",
    "nvidia.com/cuda.driver-version.revision": "unknown",
    "nvidia.com/cuda.driver.major": "unknown",
    "nvidia.com/cuda.driver.minor": "unknown",
    "nvidia.com/cuda.driver.rev": "unknown",
    "nvidia.com/gpu.machine": "unknown",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.sharing-strategy": "none",
    "nvidia.com/mig.capable": "false",
    "nvidia.com/mps.capable": "false",
    "nvidia.com/vgpu.present": "false",
}
OF_CUDA: Final = {
    **UNKNOWN,
    "nvidia.com/cuda.runtime-version.full": "12.6",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "6",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "6",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "7",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.family": "ampere",
    "nvidia.com/gpu.memory": "32768",
    "nvidia.com/gpu.mode": "unknown",
    "nvidia.com/gpu.product": "Orin",
}
"""The labels that gpu-feature-discovery 0.20 gives with the same library."""
OF_VFIO: Final = {
    **UNKNOWN,
    "nvidia.com/cuda.runtime-version.full": "0.0",
    "nvidia.com/cuda.runtime-version.major": "0",
    "nvidia.com/cuda.runtime-version.minor": "0",
    "nvidia.com/cuda.runtime.major": "0",
    "nvidia.com/cuda.runtime.minor": "0",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.memory": "131072",
    "nvidia.com/gpu.mode": "compute",
    "nvidia.com/gpu.product": "GA100-A100-SXM4-40GB",
}
"""Those that it gives two such GPUs, but for memory in bytes, and a family and a compute capability of ``-1``."""
RESOURCE: Final = """\
0x00000000ec000000 0x00000000ecffffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000001c000000000 0x000001cfffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000001d000000000 0x000001d001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x000001d100000000 0x000001d1ffffffff 0x000000000014220c
"""
PCI_IDS: Final = """\
# a list
10dd  Another
\t20b0  not this
10de  NVIDIA Corporation
\t20b0  GA100 [A100 SXM4 40GB]
\t\t10de 1450  a board
10df  Emulex
\t20b0  nor this
"""


@pytest.fixture(scope="session")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a CUDA of one GPU."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("no C compiler is installed to make the fake CUDA library with")
    directory = tmp_path_factory.mktemp("cuda")
    (directory / "cuda.c").write_text(CUDA)
    words = [compiler, "-shared", "-fPIC", "-o", str(directory / "libcuda.so.1"), str(directory / "cuda.c")]
    subprocess.run(words, check=True)
    return directory


def settings_of(*arguments: str) -> FeatureSettings:
    words = ("--no-timestamp", "--machine-type-file=", "--driver-root-ctr-path=/driver-root", *arguments)
    return load_features(parse_arguments(words, FEATURE_FLAGS), {})


def pci(root: Path, address: str, *, driver: str, device: str = "0x20b0", pci_class: str = "0x030200") -> Path:
    place = root / "sys/bus/pci/devices" / address
    place.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("device", device), ("class", pci_class), ("resource", RESOURCE)):
        (place / name).write_text(f"{text}\n")
    (place / "config").write_bytes(b"\xde\x10".ljust(256, b"\0"))
    (place / "driver").symlink_to(f"../../drivers/{driver}")
    return place


def vfio_machine(root: Path) -> Path:
    pci(root, "0000:3b:00.0", driver="vfio-pci")
    pci(root, "0000:3b:00.1", driver="vfio-pci", pci_class="0x040300")
    pci(root, "0000:af:00.0", driver="vfio-pci")
    pci(root, "0000:d8:00.0", driver="nvidia")
    (pci(root, "0000:af:00.4", driver="vfio-pci") / "physfn").symlink_to("../0000:af:00.0")
    return root


async def labels_of(
    root: Path, settings: FeatureSettings, environ: dict[str, str] | None = None, answer_s: float = 30.0
) -> dict[str, str]:
    nvml = NvmlSettings(environ={**os.environ, **(environ or {})}, survey_s=answer_s)
    return dict((await find_labels(settings, root, timestamp_s=0, nvml=nvml)).labels)


@pytest.mark.parametrize("strategy", ["auto", "tegra"])
async def test_a_tegra_without_nvml_has_the_labels_that_cuda_tells(strategy: str, cuda: Path, tmp_path: Path) -> None:
    lay_out_tegra(tmp_path)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    settings = settings_of(f"--device-discovery-strategy={strategy}")
    assert await labels_of(tmp_path, settings, {"LD_LIBRARY_PATH": str(cuda)}) == OF_CUDA


async def test_cuda_is_found_below_the_driver_s_root(cuda: Path, tmp_path: Path) -> None:
    place = tmp_path / "driver-root/usr/lib/aarch64-linux-gnu/nvidia"
    place.mkdir(parents=True)
    (place / "libcuda.so.1").symlink_to(cuda / "libcuda.so.1")
    found = await labels_of(tmp_path, settings_of("--device-discovery-strategy=tegra"))
    assert found["nvidia.com/gpu.product"] == "Orin"


@pytest.mark.parametrize(
    ("way", "problem"),
    [
        ("fail", "cuInit failed with CUDA's code 100"),
        ("hang", "did not answer within 2 s when asked for its CUDA devices"),
        ("crash", "was killed by SIGSEGV when asked for its CUDA devices"),
    ],
)
async def test_cuda_that_does_not_answer_is_told(way: str, problem: str, cuda: Path, tmp_path: Path) -> None:
    environ = {"LD_LIBRARY_PATH": str(cuda), "FAKE_CUDA": way}
    settings = settings_of("--device-discovery-strategy=tegra")
    answer_s = 2.0 if way == "hang" else 30.0
    with pytest.raises(DriverUnusable, match=problem):
        await labels_of(tmp_path, settings, environ, answer_s)
    lenient = replace(settings, fail_on_init_error=False)
    assert await labels_of(tmp_path, lenient, environ, answer_s) == {}


async def test_a_tegra_without_cuda_is_told(tmp_path: Path) -> None:
    lay_out_tegra(tmp_path)
    with pytest.raises(DriverUnusable, match="CUDA cannot be asked"):
        await labels_of(tmp_path, settings_of())


async def test_a_tegra_with_nvml_has_labels_without_cuda_too(nvml_library: Path, tmp_path: Path) -> None:
    [gpu] = t4().gpus
    async with fake_driver(FakeMachine((replace(gpu, name="NVIDIA Thor"),)), library=nvml_library) as driver:
        found = await labels_of(tmp_path, settings_of(), environ_of(driver))
    assert found["nvidia.com/gpu.product"] == "NVIDIA-Thor"


async def test_gpus_of_virtual_machines_have_the_labels_that_the_bus_tells(tmp_path: Path) -> None:
    settings = settings_of("--device-discovery-strategy=vfio")
    ids = tmp_path / "driver-root/usr/share/hwdata/pci.ids"
    ids.parent.mkdir(parents=True)
    ids.write_text(PCI_IDS)
    assert await labels_of(vfio_machine(tmp_path), settings) == OF_VFIO
    ids.unlink()
    assert (await labels_of(tmp_path, settings))["nvidia.com/gpu.product"] == "Device-20b0"


async def test_a_machine_without_such_gpus_has_the_labels_of_one_without_gpus(tmp_path: Path) -> None:
    settings = settings_of("--device-discovery-strategy=vfio")
    assert await labels_of(tmp_path, settings) == {}
    pci(tmp_path, "0000:d8:00.0", driver="nvidia")
    assert await labels_of(tmp_path, settings) == {"nvidia.com/vgpu.present": "false"}


async def test_gpus_of_virtual_machines_are_labelled_on_demand_only(tmp_path: Path) -> None:
    root = vfio_machine(tmp_path)
    with pytest.raises(GpusUnusable, match=r"0000:3b:00\.0, 0000:af:00\.0 are bound to vfio-pci, and --device-disc"):
        await labels_of(root, settings_of())
    assert await labels_of(root, settings_of("--fail-on-init-error=false")) == {"nvidia.com/vgpu.present": "false"}
