"""All devices of a node, by resource. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.resource_names import ResourcePatterns
from plugbay.plugins.nvidia.devices.building import FoundDevices, find_gpus, find_tegra, find_wsl
from plugbay.plugins.nvidia.devices.detection import GpuSource
from plugbay.plugins.nvidia.devices.devices import ResourceDevices, device_map
from plugbay.plugins.nvidia.devices.patterns import node_patterns
from plugbay.plugins.nvidia.devices.problems import DeviceProblem
from plugbay.plugins.nvidia.devices.replicas import share
from plugbay.plugins.nvidia.survey import MigMinors, Survey
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The resources of a node.

    Attributes:
        resources: those with at least one device, sorted by name; none when there is nothing to offer.
        patterns: all that count on the node, for the printed configuration.
        problems: in the order in which NVIDIA's plugin meets them; see `check_problems`.
        warnings: sentences for the log.
    """

    resources: Mapping[ResourceName, ResourceDevices]
    patterns: ResourcePatterns
    problems: tuple[DeviceProblem, ...] = ()
    warnings: tuple[str, ...] = ()


def node_devices(
    configuration: Configuration, source: GpuSource, survey: Survey | None, minors: MigMinors
) -> NodeDevices:
    """The devices of each resource of a node.

    Args:
        source: where they are looked for.
        survey: None when the driver gave none; then there are no devices, except on Tegra.
        minors: of the device nodes of MIG instances.
    """
    gpus = survey.gpus if survey is not None else ()
    patterns = node_patterns(configuration.patterns, configuration.mig_strategy, gpus)
    found = _found(configuration, source, survey, minors, patterns)
    devices, problems = share(found.devices, configuration.sharing, configuration.dialect)
    return NodeDevices(device_map(devices), patterns, (*found.problems, *problems), found.warnings)


def _found(
    configuration: Configuration,
    source: GpuSource,
    survey: Survey | None,
    minors: MigMinors,
    patterns: ResourcePatterns,
) -> FoundDevices:
    if source is GpuSource.TEGRA:
        return find_tegra()
    if survey is None:
        return FoundDevices()
    match source:
        case GpuSource.WSL:
            return find_wsl(survey, configuration.mig_strategy)
        case GpuSource.NVML:
            return find_gpus(survey, minors, configuration.mig_strategy, patterns)
        case GpuSource.VFIO | GpuSource.NULL:
            return FoundDevices()
