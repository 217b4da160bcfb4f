"""Which platform a machine is, and so where its devices are looked for. Pure.

Source: go-nvlib 0.12 ``pkg/nvlib/info``, k8s-device-plugin 0.20 ``internal/rm``, ``internal/resource``; spec 2.2, 7.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from plugbay.plugins.nvidia.config.choices import DiscoveryStrategy
from plugbay.plugins.nvidia.survey import Gpu, Survey
from plugbay.values import dataclass

_TEGRA_FAMILY = "tegra"
_UNSUPPORTED = "Unsupported platform detected; defaulting to nvml"
_THOR_ADDRESS = "0000:01:00."


class Platform(Enum):
    """The kind of machine."""

    NVML = "nvml"
    TEGRA = "tegra"
    WSL = "wsl"
    VFIO = "vfio"
    """Its GPUs are handed to virtual machines, and no driver serves them here."""
    NULL = "null"
    """No GPU, or no driver that we know."""


@dataclass(frozen=True, slots=True)
class PlatformSigns:
    """The signs of its platform that a machine shows.

    Attributes:
        has_dxcore: whether ``libdxcore.so`` can be loaded.
        has_tegra_release: whether ``/etc/nv_tegra_release`` exists.
        soc_family: the content of ``/sys/devices/soc0/family``; empty without that file.
        has_nvml: whether the driver's library can be loaded.
        vfio_functions: bus IDs of NVIDIA's GPUs that are bound to ``vfio-pci``.
    """

    has_dxcore: bool = False
    has_tegra_release: bool = False
    soc_family: str = ""
    has_nvml: bool = False
    vfio_functions: tuple[str, ...] = ()

    @property
    def has_tegra_files(self) -> bool:
        return self.has_tegra_release or self.soc_family.strip().lower().startswith(_TEGRA_FAMILY)


class GpuSource(Enum):
    """Where the devices come from."""

    NVML = "nvml"
    WSL = "wsl"
    """The driver as well, but all GPUs are one device."""
    TEGRA = "tegra"
    VFIO = "vfio"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """The decision where devices are looked for.

    Attributes:
        warning: a sentence for the log; empty without one.
    """

    platform: Platform
    source: GpuSource
    warning: str = ""


def platform_of(signs: PlatformSigns, gpu_names: Iterable[str] = ()) -> Platform:
    """The platform of a machine.

    Args:
        gpu_names: as the driver calls its GPUs, if it could be asked.
    """
    if signs.has_dxcore:
        return Platform.WSL
    if (signs.has_tegra_files and not signs.has_nvml) or any(map(_is_integrated, gpu_names)):
        return Platform.TEGRA
    if signs.has_nvml:
        return Platform.NVML
    return Platform.VFIO if signs.vfio_functions else Platform.NULL


def source_of(strategy: DiscoveryStrategy, signs: PlatformSigns, survey: Survey | None) -> SourceChoice:
    """Where the plugin looks for devices.

    Args:
        survey: None when the driver gave none.
    """
    platform = platform_of(signs, [gpu.name for gpu in survey.gpus] if survey is not None else ())
    nvml = GpuSource.WSL if platform is Platform.WSL else GpuSource.NVML
    match strategy:
        case DiscoveryStrategy.NVML:
            return SourceChoice(platform, nvml)
        case DiscoveryStrategy.TEGRA:
            return SourceChoice(platform, GpuSource.TEGRA)
        case DiscoveryStrategy.AUTO if platform is Platform.TEGRA:
            return SourceChoice(platform, GpuSource.TEGRA)
        case DiscoveryStrategy.AUTO:
            return SourceChoice(platform, nvml, _warning(platform, signs))


def _warning(platform: Platform, signs: PlatformSigns) -> str:
    if platform is Platform.VFIO:
        functions = ", ".join(signs.vfio_functions)
        return (
            f"{_UNSUPPORTED}; the GPUs {functions} are bound to vfio-pci, for virtual machines: no container gets them "
            "until they are bound to the NVIDIA driver"
        )
    return _UNSUPPORTED if platform is Platform.NULL else ""


def labels_source(platform: Platform) -> GpuSource | None:
    """Where feature discovery looks for GPUs when it is not told; None where it has to be told, as for ``vfio``."""
    match platform:
        case Platform.NVML | Platform.WSL:
            return GpuSource.NVML
        case Platform.TEGRA:
            return GpuSource.TEGRA
        case Platform.VFIO | Platform.NULL:
            return None


def is_integrated_gpu(gpu: Gpu) -> bool:
    """Whether a GPU is the Tegra's own; that of a Thor has the PCI address ``0000:01:00``, that of an Orin none.

    Source: nvidia-container-toolkit 1.20.0 ``pkg/nvcdi/lib-csv.go``, ``isIntegratedGPU``.
    """
    return gpu.pci_bus_id.startswith(_THOR_ADDRESS) if gpu.pci_bus_id else _is_integrated(gpu.name)


def _is_integrated(name: str) -> bool:
    return "(nvgpu)" in name or "NVIDIA Thor" in name
