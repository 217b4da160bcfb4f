"""The platform of a machine, by what lies below its root."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from plugbay.plugins.nvidia.config.choices import DiscoveryStrategy
from plugbay.plugins.nvidia.devices.detection import (
    GpuSource,
    Platform,
    PlatformSigns,
    labels_source,
    platform_of,
    source_of,
)
from plugbay.plugins.nvidia.platform.library import LIBRARY_DIRECTORIES, NVML_LIBRARY
from plugbay.plugins.nvidia.platform.roots import CONTROL_NODES, find_roots, present_control_nodes
from plugbay.plugins.nvidia.platform.signs import find_signs

Maker = Callable[[Path], None]


def put(root: Path, path: str, content: str = "") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def pci(root: Path, function: str, *, vendor: str, pci_class: str, driver: str | None) -> None:
    put(root, f"sys/bus/pci/devices/{function}/vendor", f"{vendor}\n")
    put(root, f"sys/bus/pci/devices/{function}/class", f"{pci_class}\n")
    if driver is not None:
        (root / f"sys/bus/pci/devices/{function}/driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")


def vfio(root: Path) -> None:
    pci(root, "0000:3b:00.0", vendor="0x10de", pci_class="0x030200", driver="vfio-pci")
    pci(root, "0000:3b:00.1", vendor="0x10de", pci_class="0x040300", driver="vfio-pci")
    pci(root, "0000:af:00.0", vendor="0x10de", pci_class="0x030000", driver="nvidia")
    pci(root, "0000:d8:00.0", vendor="0x10de", pci_class="0x030000", driver=None)
    pci(root, "0000:00:02.0", vendor="0x8086", pci_class="0x030000", driver="vfio-pci")


def tegra_release(root: Path) -> None:
    put(root, "etc/nv_tegra_release", "# R35")


def tegra_family(root: Path) -> None:
    put(root, "sys/devices/soc0/family", "Tegra\n")


def other_family(root: Path) -> None:
    put(root, "sys/devices/soc0/family", "jep106:0426\n")


def wsl(root: Path) -> None:
    put(root, "usr/lib/wsl/lib/libdxcore.so")


def nothing(root: Path) -> None:
    assert not list(root.iterdir())


@pytest.mark.parametrize(
    ("make", "has_nvml", "platform"),
    [
        (nothing, False, Platform.NULL),
        (nothing, True, Platform.NVML),
        (other_family, False, Platform.NULL),
        (tegra_release, False, Platform.TEGRA),
        (tegra_family, False, Platform.TEGRA),
        (tegra_family, True, Platform.NVML),
        (wsl, True, Platform.WSL),
        (wsl, False, Platform.WSL),
        (vfio, False, Platform.VFIO),
        (vfio, True, Platform.NVML),
    ],
)
def test_platform_of_a_root(tmp_path: Path, make: Maker, has_nvml: bool, platform: Platform) -> None:
    make(tmp_path)
    assert platform_of(find_signs(tmp_path, has_nvml=has_nvml)) is platform


@pytest.mark.parametrize("make", [tegra_release, tegra_family])
def test_a_tegra_is_known_by_the_host_s_files_in_a_container_that_has_none(tmp_path: Path, make: Maker) -> None:
    host = tmp_path / "driver-root"
    host.mkdir()
    make(host)
    assert platform_of(find_signs(tmp_path, has_nvml=False)) is Platform.NULL
    assert platform_of(find_signs(tmp_path, has_nvml=False, driver_root=host)) is Platform.TEGRA


def test_gpus_that_are_handed_to_virtual_machines(tmp_path: Path) -> None:
    vfio(tmp_path)
    assert find_signs(tmp_path, has_nvml=False).vfio_functions == ("0000:3b:00.0",)


def test_libraries_are_looked_for_in_more_directories(tmp_path: Path) -> None:
    put(tmp_path, "opt/wsl/libdxcore.so")
    assert not find_signs(tmp_path, has_nvml=True).has_dxcore
    assert find_signs(tmp_path, has_nvml=True, library_path=[str(tmp_path / "opt/wsl")]).has_dxcore


@pytest.mark.parametrize("name", ["Orin (nvgpu)", "NVIDIA Thor", "NVIDIA Thor T5000"])
def test_integrated_gpus_are_of_a_tegra(name: str) -> None:
    signs = PlatformSigns(has_nvml=True)
    assert platform_of(signs, ["NVIDIA A100-SXM4-40GB"]) is Platform.NVML
    assert platform_of(signs, ["NVIDIA A100-SXM4-40GB", name]) is Platform.TEGRA


WARNING: Final = "Unsupported platform detected; defaulting to nvml"


@pytest.mark.parametrize(
    ("strategy", "signs", "source", "warning"),
    [
        (DiscoveryStrategy.AUTO, PlatformSigns(has_nvml=True), GpuSource.NVML, ""),
        (DiscoveryStrategy.AUTO, PlatformSigns(has_dxcore=True, has_nvml=True), GpuSource.WSL, ""),
        (DiscoveryStrategy.AUTO, PlatformSigns(has_tegra_release=True), GpuSource.TEGRA, ""),
        (DiscoveryStrategy.AUTO, PlatformSigns(), GpuSource.NVML, WARNING),
        (DiscoveryStrategy.NVML, PlatformSigns(has_tegra_release=True), GpuSource.NVML, ""),
        (DiscoveryStrategy.NVML, PlatformSigns(has_dxcore=True), GpuSource.WSL, ""),
        (DiscoveryStrategy.TEGRA, PlatformSigns(has_nvml=True), GpuSource.TEGRA, ""),
    ],
)
def test_source_of_devices(strategy: DiscoveryStrategy, signs: PlatformSigns, source: GpuSource, warning: str) -> None:
    choice = source_of(strategy, signs, None)
    assert (choice.source, choice.warning) == (source, warning)


def test_gpus_of_virtual_machines_are_named_where_nothing_else_is_there() -> None:
    choice = source_of(DiscoveryStrategy.AUTO, PlatformSigns(vfio_functions=("0000:3b:00.0", "0000:af:00.0")), None)
    assert (choice.platform, choice.source) == (Platform.VFIO, GpuSource.NVML)
    assert choice.warning.startswith(f"{WARNING}; the GPUs 0000:3b:00.0, 0000:af:00.0 are bound to vfio-pci")


def test_source_of_labels() -> None:
    assert {platform: labels_source(platform) for platform in Platform} == {
        Platform.NVML: GpuSource.NVML,
        Platform.WSL: GpuSource.NVML,
        Platform.TEGRA: GpuSource.TEGRA,
        Platform.VFIO: None,
        Platform.NULL: None,
    }


def test_library_below_the_driver_root(tmp_path: Path) -> None:
    real = put(tmp_path, "driver-root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15")
    (real.parent / NVML_LIBRARY).symlink_to(real.name)
    put(tmp_path, f"driver-root/lib64/{NVML_LIBRARY}")
    roots = find_roots(tmp_path, "/driver-root")
    assert roots.library.path == str(real)
    assert roots.library.tried == (str(tmp_path / "driver-root" / LIBRARY_DIRECTORIES[0] / NVML_LIBRARY),)
    assert (roots.driver, roots.dev) == (tmp_path / "driver-root", tmp_path)


@pytest.mark.parametrize("setting", ["", "/", "/driver-root"])
def test_library_of_the_linker(tmp_path: Path, setting: str) -> None:
    roots = find_roots(tmp_path, setting)
    assert roots.library.path == NVML_LIBRARY
    assert not roots.library.is_found
    assert str(tmp_path / setting.lstrip("/") / LIBRARY_DIRECTORIES[0] / NVML_LIBRARY) in roots.library.tried


def test_dev_root_is_the_driver_root_that_holds_dev(tmp_path: Path) -> None:
    (tmp_path / "driver-root/dev").mkdir(parents=True)
    assert find_roots(tmp_path, "/driver-root").dev == tmp_path / "driver-root"


def test_control_nodes_that_exist(tmp_path: Path) -> None:
    assert present_control_nodes(tmp_path) == ()
    for path in CONTROL_NODES[1::2]:
        put(tmp_path, path.lstrip("/"))
    assert present_control_nodes(tmp_path) == CONTROL_NODES[1::2]
