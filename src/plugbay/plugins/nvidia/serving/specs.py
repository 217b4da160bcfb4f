"""Write the CDI specs of a node. Blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from plugbay.cdi.spec import Spec
from plugbay.plugins.nvidia.answers.features import CdiClass, ImexChannel
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice, spec_devices
from plugbay.plugins.nvidia.cdi.driver_files import find_driver_files
from plugbay.plugins.nvidia.cdi.generation import divide, gpu_spec, imex_spec, optional_spec
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms
from plugbay.plugins.nvidia.cdi.mount_lists import MOUNT_LISTS, mount_lists, read_lists
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots
from plugbay.plugins.nvidia.cdi.tegra import tegra_spec
from plugbay.plugins.nvidia.cdi.tree import DriverTree
from plugbay.plugins.nvidia.cdi.writing import write_specs
from plugbay.plugins.nvidia.cdi.wsl import WSL_LIBRARIES, find_store, wsl_spec
from plugbay.plugins.nvidia.config.configuration import SELF_CONTAINED, Configuration
from plugbay.plugins.nvidia.devices.building import TEGRA_ID, WSL_ID, WSL_PATH
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.serving.settings import NodeSettings, roots_of
from plugbay.plugins.nvidia.serving.sight import Sight
from plugbay.plugins.nvidia.serving.written import WrittenSpecs
from plugbay.values import dataclass


def write_node_specs(
    settings: NodeSettings, configuration: Configuration, sight: Sight, channels: tuple[ImexChannel, ...]
) -> WrittenSpecs:
    """Write the specs of a node that was seen.

    Raises:
        GpusUnusable: the driver's files are not found.
        PathUnusable: a file cannot be written.
    """
    made = _gpu_spec(settings, configuration, sight)
    finder = _finder(settings, configuration)
    optional = {
        CdiClass.GDRCOPY: configuration.gdrcopy_enabled,
        CdiClass.GDS: configuration.gds_enabled,
        CdiClass.MOFED: configuration.mofed_enabled,
    }
    specs = {each: optional_spec(each, finder) if is_enabled else None for each, is_enabled in optional.items()}
    classes = write_specs(
        {CdiClass.GPU: made.spec, CdiClass.IMEX_CHANNEL: imex_spec(channels, finder.roots), **specs},
        settings.cdi_directory,
    )
    return WrittenSpecs(classes, made.without_nodes, made.warnings)


@dataclass(frozen=True, slots=True)
class _Made:
    spec: Spec
    without_nodes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def _gpu_spec(settings: NodeSettings, configuration: Configuration, sight: Sight) -> _Made:
    finder = _finder(settings, configuration)
    flags = frozenset(configuration.cdi.feature_flags)
    programs = HookPrograms(configuration.cdi.hook_path, frozenset(configuration.cdi.disabled_hooks))
    mode = HookMode.SELF_CONTAINED if SELF_CONTAINED in flags else HookMode.TOOLKIT
    match sight.choice.source:
        case GpuSource.TEGRA:
            return _tegra(settings, configuration, sight, finder, programs, mode)
        case GpuSource.WSL:
            return _wsl(settings, finder, programs, mode)
        case GpuSource.NVML | GpuSource.VFIO | GpuSource.NULL:
            return _nvml(settings, configuration, sight, finder, programs, mode)


def _nvml(
    settings: NodeSettings,
    configuration: Configuration,
    sight: Sight,
    finder: NodeFinder,
    programs: HookPrograms,
    mode: HookMode,
) -> _Made:
    flags = frozenset(configuration.cdi.feature_flags)
    assert sight.survey is not None
    files = find_driver_files(
        finder.roots.driver,
        sight.survey.driver_version,
        machine_root=settings.root,
        explicit="enable-explicit-driver-libraries" in flags,
    )
    devices, problems = divide(
        spec_devices(
            sight.survey,
            sight.minors,
            mig=configuration.mig_strategy,
            ids=configuration.id_strategy,
            has_coherence="enable-coherent-annotations" in flags,
        ),
        finder,
    )
    has_sockets = "disable-ipc-discoverer" not in flags
    return _Made(gpu_spec(devices, files, finder, programs=programs, mode=mode, has_sockets=has_sockets), problems)


def _tegra(
    settings: NodeSettings,
    configuration: Configuration,
    sight: Sight,
    finder: NodeFinder,
    programs: HookPrograms,
    mode: HookMode,
) -> _Made:
    files = mount_lists(settings.root, finder.roots.driver)
    spec = tegra_spec(
        read_lists(files),
        finder,
        sight.survey,
        ids=configuration.id_strategy,
        programs=programs,
        mode=mode,
        is_single="disable-multiple-csv-devices" in configuration.cdi.feature_flags,
    )
    if spec.devices:
        return _Made(spec)
    where = ", ".join(map(str, files)) or f"{MOUNT_LISTS} below the driver's root"
    problem = (
        f"no device node is listed in {where}, so that no CDI spec names the device; NVIDIA's L4T brings the lists"
    )
    return _Made(spec, {TEGRA_ID: problem})


def _wsl(settings: NodeSettings, finder: NodeFinder, programs: HookPrograms, mode: HookMode) -> _Made:
    if not finder.roots.driver.joinpath(WSL_LIBRARIES.lstrip("/")).is_dir():  # Windows' files are not the driver's
        finder = replace(finder, roots=SpecRoots(settings.root, finder.roots.dev, host_dev=finder.roots.host_dev))
    store, others = find_store(DriverTree(finder.roots.driver))
    devices, problems = divide([NodesOfDevice(WSL_ID, WSL_ID, (WSL_PATH,))], finder)
    spec = wsl_spec(next(iter(devices), None), store, finder, programs=programs, mode=mode)
    warning = f"containers get the driver in {store}, which is newer than {', '.join(others)}" if others else ""
    return _Made(spec, problems, (warning,) if warning else ())


def _finder(settings: NodeSettings, configuration: Configuration) -> NodeFinder:
    found = roots_of(settings, configuration)
    roots = SpecRoots(found.driver, found.dev, configuration.roots.host, configuration.roots.host_dev)
    adds_groups = "no-additional-gids-for-device-nodes" not in configuration.cdi.feature_flags
    return NodeFinder(roots, settings.root / "sys", adds_groups=adds_groups)
