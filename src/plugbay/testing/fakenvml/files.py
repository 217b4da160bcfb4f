"""Files of a machine with NVIDIA GPUs, below a root: ``/dev``, ``/proc``, ``/sys`` and those of the driver."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from plugbay.testing.fakenvml.machines import FakeGpu, FakeMachine

_NOT_LOADED: Final = 9
_MAJOR: Final = 195
_UVM_MAJOR: Final = 235
_CAPS_MAJOR: Final = 236
_GPU_INSTANCES: Final = 15
_COMPUTE_INSTANCES: Final = 8
_LIBRARIES: Final = ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
_PROGRAMS: Final = ("nvidia-smi", "nvidia-cuda-mps-control")
_PCI_CONFIG_BYTES: Final = 256


def mig_minors(machine: FakeMachine) -> dict[str, int]:
    """The entries of ``/proc/driver/nvidia-caps/mig-minors``, numbered as a driver does it."""
    minors, minor = {"config": 1, "monitor": 2}, 3
    for gpu in sorted(machine.gpus, key=lambda gpu: gpu.minor):
        for gpu_instance in range(_GPU_INSTANCES):
            minors[f"gpu{gpu.minor}/gi{gpu_instance}/access"] = minor
            minor += 1
            for compute_instance in range(_COMPUTE_INSTANCES):
                minors[f"gpu{gpu.minor}/gi{gpu_instance}/ci{compute_instance}/access"] = minor
                minor += 1
    return minors


def lay_out_machine(root: Path, machine: FakeMachine, *, with_device_nodes: bool = False) -> None:
    """Write all that a driver and the kernel would have below ``root`` for this machine.

    Args:
        with_device_nodes: make ``/dev/nvidia*`` character devices with the driver's numbers, which takes root. Else
            they are empty files.
    """
    lay_out_proc(root, machine)
    lay_out_module(root, machine)
    lay_out_devices(root, machine, with_device_nodes=with_device_nodes)
    lay_out_pci(root, machine)
    _write(root, "sys/class/dmi/id/product_name", "Fake Station\n")


def lay_out_proc(root: Path, machine: FakeMachine) -> None:
    """Write ``/proc/driver/nvidia`` and ``/proc/driver/nvidia-caps``."""
    version = (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {machine.driver_version}  Thu Jan  1 00:00:00 UTC 1970\n"
    )
    _write(root, "proc/driver/nvidia/version", version)
    for gpu in machine.gpus:
        details = {
            "Model": gpu.name,
            "IRQ": "0",
            "GPU UUID": gpu.uuid,
            "Bus Type": "PCIe",
            "Bus Location": bus_id_in_sysfs(gpu),
            "Device Minor": str(gpu.minor),
        }
        text = "".join(f"{name + ':':<16} {value}\n" for name, value in details.items())
        _write(root, f"proc/driver/nvidia/gpus/{bus_id_in_sysfs(gpu)}/information", text)
    minors = mig_minors(machine)
    _write(root, "proc/driver/nvidia-caps/mig-minors", "".join(f"{name} {minor}\n" for name, minor in minors.items()))
    for name in ("config", "monitor"):
        _write(root, f"proc/driver/nvidia/capabilities/mig/{name}", _capability(minors[name]))
    for gpu, gpu_instance, compute_instance in _instances(machine):
        place = f"proc/driver/nvidia/capabilities/gpu{gpu.minor}/mig/gi{gpu_instance}"
        name = f"gpu{gpu.minor}/gi{gpu_instance}"
        _write(root, f"{place}/access", _capability(minors[f"{name}/access"]))
        _write(root, f"{place}/ci{compute_instance}/access", _capability(minors[f"{name}/ci{compute_instance}/access"]))


def lay_out_module(root: Path, machine: FakeMachine) -> None:
    """Write ``/sys/module/nvidia``: each load of the driver has a directory of its own, and a driver not loaded none.

    It is a link, so that the inode of no load is used again, as in sysfs.
    """
    module = root / "sys/module/nvidia"
    module.unlink(missing_ok=True)
    if machine.init_result != _NOT_LOADED:
        load = f"sys/module/.loads/nvidia-{machine.generation}"
        _write(root, f"{load}/version", f"{machine.driver_version}\n")
        _link(module, f".loads/nvidia-{machine.generation}")


def lay_out_devices(root: Path, machine: FakeMachine, *, with_device_nodes: bool = False) -> None:
    """Write ``/dev/nvidia*``; see `lay_out_machine`."""
    nodes = {f"nvidia{gpu.minor}": (_MAJOR, gpu.minor) for gpu in machine.gpus}
    nodes |= {"nvidiactl": (_MAJOR, 255), "nvidia-modeset": (_MAJOR, 254)}
    nodes |= {"nvidia-uvm": (_UVM_MAJOR, 0), "nvidia-uvm-tools": (_UVM_MAJOR, 1)}
    minors = mig_minors(machine)
    caps = {minors["config"], minors["monitor"]}
    for gpu, gpu_instance, compute_instance in _instances(machine):
        caps |= {
            minors[f"gpu{gpu.minor}/gi{gpu_instance}/access"],
            minors[f"gpu{gpu.minor}/gi{gpu_instance}/ci{compute_instance}/access"],
        }
    nodes |= {f"nvidia-caps/nvidia-cap{minor}": (_CAPS_MAJOR, minor) for minor in caps}
    for name, (major, minor) in nodes.items():
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if with_device_nodes:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        else:
            path.touch()
        path.chmod(0o666)


def lay_out_pci(root: Path, machine: FakeMachine) -> None:
    """Write ``/sys/bus/pci/devices`` for the GPUs."""
    for gpu in machine.gpus:
        place = f"sys/bus/pci/devices/{bus_id_in_sysfs(gpu)}"
        files: Mapping[str, str] = {
            "numa_node": f"{gpu.numa_node}\n",
            "class": f"0x{gpu.pci_class:06x}\n",
            "vendor": f"0x{gpu.pci_device_id & 0xFFFF:04x}\n",
            "device": f"0x{gpu.pci_device_id >> 16:04x}\n",
            "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
        }
        for name, text in files.items():
            _write(root, f"{place}/{name}", text)
        config = bytearray(_PCI_CONFIG_BYTES)
        config[0:2] = (gpu.pci_device_id & 0xFFFF).to_bytes(2, "little")
        config[2:4] = (gpu.pci_device_id >> 16).to_bytes(2, "little")
        config[9:12] = gpu.pci_class.to_bytes(3, "little")
        (root / place / "config").write_bytes(config)


def lay_out_driver(root: Path, driver_version: str, library: Path | None = None) -> None:
    """Write the files of a driver: libraries with their links, programs, firmware and configuration.

    Args:
        library: what ``libnvidia-ml.so.1`` leads to; None for an empty file.
    """
    for name in _LIBRARIES:
        full = f"{name}.so.{driver_version}"
        _write(root, f"usr/lib64/{full}", "")
        if name == "libnvidia-ml" and library is not None:
            (root / "usr/lib64" / full).write_bytes(library.read_bytes())
        if name != "libnvidia-ptxjitcompiler":
            _link(root / "usr/lib64" / f"{name}.so.1", full)
    _link(root / "usr/lib64/libcuda.so", "libcuda.so.1")
    for name in _PROGRAMS:
        _write(root, f"usr/bin/{name}", "#!/bin/sh\n")
        (root / "usr/bin" / name).chmod(0o755)
    _write(root, f"lib/firmware/nvidia/{driver_version}/gsp_ga10x.bin", "")
    _write(root, "usr/share/vulkan/icd.d/nvidia_icd.json", "{}\n")


def lay_out_tegra(root: Path) -> None:
    """Write the files by which a Tegra is known, with its lists of files to mount."""
    _write(root, "etc/nv_tegra_release", "# R36 (release), REVISION: 3.0, GCID: 0, BOARD: generic\n")
    _write(root, "sys/devices/soc0/family", "Tegra\n")
    lists = "etc/nvidia-container-runtime/host-files-for-container.d"
    _write(root, f"{lists}/devices.csv", "dev, /dev/nvhost-gpu\ndev, /dev/nvmap\n")
    _write(root, f"{lists}/drivers.csv", "lib, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1\n")
    _write(root, f"{lists}/l4t.csv", "dir, /usr/src/nvidia\nsym, /usr/lib/aarch64-linux-gnu/tegra/libcuda.so\n")
    for node in ("nvhost-gpu", "nvmap"):
        _write(root, f"dev/{node}", "")
    _write(root, "usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1", "")
    _link(root / "usr/lib/aarch64-linux-gnu/tegra/libcuda.so", "libcuda.so.1.1")


def lay_out_wsl(root: Path) -> None:
    """Write the files by which Windows' subsystem for Linux is known."""
    _write(root, "dev/dxg", "")
    for name in ("libdxcore.so", "libcuda.so.1.1", "libcuda_loader.so", "libnvidia-ml.so.1", "nvidia-smi"):
        _write(root, f"usr/lib/wsl/lib/{name}", "")
    _write(root, "usr/lib/wsl/drivers/nv_dispi.inf_amd64_0/libcuda.so.1.1", "")


def bus_id_in_sysfs(gpu: FakeGpu) -> str:
    return gpu.bus_id.lower()[4:]


def _instances(machine: FakeMachine) -> Iterator[tuple[FakeGpu, int, int]]:
    for gpu in machine.gpus:
        if gpu.mig is not None and gpu.mig.enabled:
            for device in gpu.mig.devices:
                yield gpu, device.gpu_instance, device.compute_instance


def _capability(minor: int) -> str:
    return f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"


def _write(root: Path, place: str, text: str) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _link(path: Path, target: str) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(target)
