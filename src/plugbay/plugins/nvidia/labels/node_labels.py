"""All labels of a node. Pure.

Source: gpu-feature-discovery 0.20 ``internal/lm``; spec 7.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from plugbay.plugins.nvidia.config.choices import MigStrategy, SharingStrategy
from plugbay.plugins.nvidia.config.resource_names import GPU, PREFIX
from plugbay.plugins.nvidia.config.sharing import NO_SHARING, SharingSettings
from plugbay.plugins.nvidia.labels.label_values import label_value, sanitised
from plugbay.plugins.nvidia.labels.machine import MachineProperties
from plugbay.plugins.nvidia.labels.resource_labels import (
    Labels,
    gpu_labels,
    invalid_mig_labels,
    mig_labels,
    profile_name,
    profile_resource,
)
from plugbay.plugins.nvidia.labels.vgpu import host_driver, is_vgpu, vendor_capability
from plugbay.plugins.nvidia.survey import Gpu, MigDevice, Survey
from plugbay.values import dataclass

_UNKNOWN: Final = "unknown"
_MODES: Final = {0x030000: "graphics", 0x030200: "compute"}
_VERSION_PARTS: Final = (2, 3)


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """The labels of a node.

    Attributes:
        labels: by their full names, sorted.
        warnings: sentences for the log.
    """

    labels: Labels
    warnings: tuple[str, ...] = ()


def node_labels(
    survey: Survey | None,
    machine: MachineProperties,
    *,
    mig: MigStrategy,
    sharing: SharingSettings = NO_SHARING,
    timestamp_s: int | None = None,
) -> NodeLabels:
    """The labels of a node.

    Where the reference ends its program (a GPU in MIG mode with MPS, a driver version of an unknown form, a vGPU that
    does not tell of its host), a warning says so and the other labels stay. Values are valid for Kubernetes; of several
    models, the first whole GPU's labels remain.

    Args:
        survey: None when there is no driver.
        timestamp_s: Unix seconds of the program's start; None to leave that label out.
    """
    warnings: list[str] = []
    labels: dict[str, str] = {}
    if timestamp_s is not None:
        labels[f"{PREFIX}gfd.timestamp"] = str(timestamp_s)
    labels |= _vgpu(machine, warnings)
    gpus = [gpu for gpu in survey.gpus if not gpu.is_display] if survey is not None else []
    if survey is not None and gpus:
        labels[f"{PREFIX}gpu.machine"] = label_value(sanitised(_machine_type(machine)))
        labels |= _versions(survey, warnings)
        labels |= _capabilities(gpus, sharing, warnings)
        labels |= _whole_gpus(gpus, sharing, warnings)
        labels |= _mig(gpus, mig, sharing, warnings)
        labels[f"{PREFIX}gpu.mode"] = _mode(gpus, machine)
        cliques = {
            (gpu.fabric.cluster_uuid, gpu.fabric.clique) for gpu in gpus if gpu.fabric and gpu.fabric.is_attached
        }
        if len(cliques) == 1:
            cluster, clique = cliques.pop()
            labels[f"{PREFIX}gpu.clique"] = f"{cluster}.{clique}"
    return NodeLabels(dict(sorted(labels.items())), tuple(warnings))


def _versions(survey: Survey, warnings: list[str]) -> dict[str, str]:
    major, minor = map(str, survey.cuda_driver_version)
    values = {
        "cuda.runtime-version.full": f"{major}.{minor}",
        "cuda.runtime-version.major": major,
        "cuda.runtime-version.minor": minor,
        "cuda.runtime.major": major,
        "cuda.runtime.minor": minor,
    }
    parts = survey.driver_version.split(".")
    if len(parts) in _VERSION_PARTS:
        driver_major, driver_minor, revision = (*parts, "")[:3]
        values |= {
            "cuda.driver-version.full": survey.driver_version,
            "cuda.driver-version.major": driver_major,
            "cuda.driver-version.minor": driver_minor,
            "cuda.driver-version.revision": revision,
            "cuda.driver.major": driver_major,
            "cuda.driver.minor": driver_minor,
            "cuda.driver.rev": revision,
        }
    else:
        warnings.append(
            f'the driver version "{survey.driver_version}" does not match the format "X.Y[.Z]", so no label tells of it'
        )
    return {f"{PREFIX}{end}": value for end, value in values.items()}


def _capabilities(gpus: Iterable[Gpu], sharing: SharingSettings, warnings: list[str]) -> dict[str, str]:
    gpus = list(gpus)
    shares_mps = sharing.strategy is SharingStrategy.MPS
    in_mig_mode = any(gpu.is_mig_enabled for gpu in gpus)
    if shares_mps and in_mig_mode:
        warnings.append("MPS sharing is not supported for MIG devices, so the node is not labelled as capable of MPS")
    return {
        f"{PREFIX}mig.capable": _yes_or_no(any(gpu.mig is not None for gpu in gpus)),
        f"{PREFIX}mps.capable": _yes_or_no(shares_mps and not in_mig_mode),
    }


def _whole_gpus(gpus: list[Gpu], sharing: SharingSettings, warnings: list[str]) -> dict[str, str]:
    """The labels of the first model; whole GPUs go before those in MIG mode, of which they would be the remains."""
    ordered = sorted(gpus, key=lambda gpu: gpu.is_mig_enabled)
    first = ordered[0]
    models = dict.fromkeys(gpu.name for gpu in ordered)
    if len(models) > 1:
        warnings.append(f"Multiple device types detected: {', '.join(models)}; the labels are those of {first.name}")
    count = sum(gpu.name == first.name for gpu in gpus)
    return gpu_labels(first, count, None if first.is_mig_enabled else sharing)


def _mig(gpus: list[Gpu], strategy: MigStrategy, sharing: SharingSettings, warnings: list[str]) -> dict[str, str]:
    if strategy is MigStrategy.NONE:
        return {}
    labels = {f"{PREFIX}mig.strategy": strategy.value}
    by_profile = _by_profile(gpus)
    if strategy is MigStrategy.MIXED:
        for gpu, device, count in by_profile:
            labels |= mig_labels(profile_resource(device), gpu, device, count, sharing)
        return labels
    in_mig_mode = [gpu for gpu in gpus if gpu.is_mig_enabled]
    if not in_mig_mode:
        return labels
    if problem := _problem_of_single(gpus, in_mig_mode, profiles=len(by_profile)):
        warnings.append(f"Invalid configuration detected for mig-strategy=single: {problem}")
        return labels | invalid_mig_labels(in_mig_mode[0])
    gpu, device, count = by_profile[0]
    return labels | mig_labels(GPU, gpu, device, count, sharing)


def _problem_of_single(gpus: list[Gpu], in_mig_mode: list[Gpu], *, profiles: int) -> str:
    if not all(gpu.mig_devices for gpu in in_mig_mode):
        return "at least one MIG device is enabled but empty"
    if len(in_mig_mode) < len(gpus):
        return "devices with MIG enabled and disable detected"
    return "more than one MIG device type present on node" if profiles > 1 else ""


def _by_profile(gpus: Iterable[Gpu]) -> list[tuple[Gpu, MigDevice, int]]:
    """The first MIG device of each profile, its GPU, and how many there are."""
    found: dict[str, tuple[Gpu, MigDevice, int]] = {}
    for gpu, device in _mig_devices(gpus):
        first_gpu, first, count = found.get(profile_name(device), (gpu, device, 0))
        found[profile_name(device)] = first_gpu, first, count + 1
    return list(found.values())


def _mig_devices(gpus: Iterable[Gpu]) -> Iterator[tuple[Gpu, MigDevice]]:
    for gpu in gpus:
        if gpu.is_mig_enabled:
            yield from ((gpu, device) for device in gpu.mig_devices if device.profile is not None)


def _machine_type(machine: MachineProperties) -> str:
    return _UNKNOWN if machine.machine_type is None else machine.machine_type


def _mode(gpus: Iterable[Gpu], machine: MachineProperties) -> str:
    classes = {machine.pci_class(gpu.pci_bus_id) for gpu in gpus}
    return _MODES.get(classes.pop() or 0, _UNKNOWN) if len(classes) == 1 else _UNKNOWN


def _vgpu(machine: MachineProperties, warnings: list[str]) -> dict[str, str]:
    if machine.pci is None:
        return {}
    found = []
    for function in machine.pci:
        try:
            capability = vendor_capability(function.config)
        except ValueError as error:
            warnings.append(f"cannot tell whether {function.address} is a vGPU, so no label does: {error}")
            return {}
        if capability is not None and is_vgpu(capability):
            found.append((function.address, host_driver(capability)))
    labels = {f"{PREFIX}vgpu.present": _yes_or_no(bool(found))}
    for address, host in found:
        if host is None:
            warnings.append(f"the vGPU {address} does not tell its host's driver, so no label does")
        else:
            labels[f"{PREFIX}vgpu.host-driver-version"] = label_value(host.version)
            labels[f"{PREFIX}vgpu.host-driver-branch"] = label_value(host.branch)
    return labels


def _yes_or_no(value: bool) -> str:
    return str(value).lower()
