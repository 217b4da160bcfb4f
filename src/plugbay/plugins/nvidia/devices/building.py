"""The devices of each resource of a node. Pure.

Where NVIDIA's plugin gives up at the first thing that is wrong, the devices that are in order are built, and a problem
tells of the others: `check_problems` decides whether the plugin starts.

Source: k8s-device-plugin 0.20 ``internal/rm/{device_map,nvml_devices,nvml_manager,tegra_manager,wsl_devices}.go``;
spec 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.config.choices import MigStrategy
from plugbay.plugins.nvidia.config.resource_names import GPU, ResourcePatterns
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice
from plugbay.plugins.nvidia.devices.problems import (
    BUILDING_GPUS,
    BUILDING_MIG,
    FROM_RESOURCES,
    INVALID_MIG,
    NO_MIG,
    VISITING_FOR_PATTERNS,
    DeviceProblem,
)
from plugbay.plugins.nvidia.survey import Gpu, MigDevice, MigMinors, Survey
from plugbay.values import dataclass

WSL_PATH: Final = "/dev/dxg"
WSL_ID: Final = "all"
TEGRA_ID: Final = "tegra"
TEGRA_INDEX: Final = "0"
_VISITING: Final = "error visiting devices: error visiting device: error visiting device"
_VISITING_MIG: Final = f"{_VISITING}: error visiting MIG device: error visiting MIG device"
_VISITING_GPU: Final = "error visiting device"
_PATHS: Final = "error building Device: error getting device paths"
_CAPABILITIES: Final = "/proc/driver/nvidia/capabilities"

Found = tuple[ResourceName, NvidiaDevice]
"""A resource and a device of it."""


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices of a node before they are replicated.

    Attributes:
        devices: without those that a problem tells of.
        problems: in the order in which NVIDIA's plugin meets them.
        warnings: sentences for the log.
    """

    devices: tuple[Found, ...] = ()
    problems: tuple[DeviceProblem, ...] = ()
    warnings: tuple[str, ...] = ()


def find_tegra() -> FoundDevices:
    """The one device of a Tegra machine."""
    return FoundDevices(((GPU, NvidiaDevice(TEGRA_ID, TEGRA_INDEX, DeviceKind.TEGRA)),))


def find_wsl(survey: Survey, strategy: MigStrategy) -> FoundDevices:
    """The one device of a WSL machine: all its GPUs; none without a GPU."""
    gpus = _offered(survey)
    if not gpus:
        return FoundDevices(problems=tuple(_unreadable(survey, strategy)))
    device = NvidiaDevice(
        WSL_ID,
        WSL_ID,
        DeviceKind.WSL,
        paths=(WSL_PATH,),
        memory_bytes=gpus[-1].memory_bytes,
        compute_capability=gpus[-1].compute_capability,
    )
    return FoundDevices(((GPU, device),), tuple(_unreadable(survey, strategy)))


def find_gpus(survey: Survey, minors: MigMinors, strategy: MigStrategy, patterns: ResourcePatterns) -> FoundDevices:
    """The GPUs and MIG devices of a machine.

    Args:
        minors: of the device nodes of MIG instances.
        patterns: all that count on the node, see `node_patterns`.
    """
    problems = list(_unreadable(survey, strategy))
    gpus = _offered(survey)
    in_mig_mode = [gpu for gpu in gpus if gpu.is_mig_enabled] if strategy is not MigStrategy.NONE else []
    whole = [gpu for gpu in gpus if gpu not in in_mig_mode]
    devices = list(_whole_gpus(whole, patterns, problems))
    mig = list(_mig_devices(in_mig_mode, minors, patterns, problems))
    warnings: list[str] = []
    match strategy:
        case MigStrategy.SINGLE if in_mig_mode:
            checked = _check_single(in_mig_mode, is_uniform=not whole)
            problems += checked
            if any(problem.gpu is None for problem in checked):
                mig = []  # not of one kind, so no container would know what it gets
        case MigStrategy.MIXED:
            warnings += [
                f"device {gpu.index} has no MIG devices configured: it is in MIG mode, so nothing of it is offered; "
                "make MIG devices on it, or end its MIG mode"
                for gpu in in_mig_mode
                if not gpu.mig_devices
            ]
        case _:
            pass
    return FoundDevices((*devices, *mig), tuple(problems), tuple(warnings))


def _offered(survey: Survey) -> list[Gpu]:
    return [gpu for gpu in survey.gpus if not gpu.is_display]


def _unreadable(survey: Survey, strategy: MigStrategy) -> Iterator[DeviceProblem]:
    step = VISITING_FOR_PATTERNS if strategy is MigStrategy.MIXED else BUILDING_GPUS
    for gpu in survey.unreadable:
        reason = gpu.problem.rpartition(": ")[2]
        problem = gpu.problem if gpu.uuid else f"error getting device handle for index '{gpu.index}': {reason}"
        yield DeviceProblem(step, problem, gpu.index)


def _whole_gpus(gpus: Sequence[Gpu], patterns: ResourcePatterns, problems: list[DeviceProblem]) -> Iterator[Found]:
    for gpu in gpus:
        resource = patterns.resource_of_gpu(gpu.name)
        if resource is None:
            problem = f"GPU name '{gpu.name}' does not match any resource patterns"
            problems.append(DeviceProblem(BUILDING_GPUS, problem, gpu.index))
            continue
        if not gpu.has_node:
            step = f"{BUILDING_GPUS}: {_VISITING_GPU}: {_PATHS}"
            problems.append(DeviceProblem(step, _without_node(gpu), gpu.index))
            continue
        device = NvidiaDevice(
            gpu.uuid,
            str(gpu.index),
            DeviceKind.GPU,
            gpu.uuid,
            paths=(_node(gpu),),
            numa_node=gpu.numa_node,
            memory_bytes=gpu.memory_bytes,
            compute_capability=gpu.compute_capability,
        )
        yield resource, device


def _mig_devices(
    gpus: Sequence[Gpu], minors: MigMinors, patterns: ResourcePatterns, problems: list[DeviceProblem]
) -> Iterator[Found]:
    for gpu in gpus:
        for mig in gpu.mig_devices:
            if problem := _problem_of(gpu, mig, minors, patterns):
                problems.append(problem)
                continue
            resource = patterns.resource_of_profile(str(mig.profile))
            assert resource is not None
            yield resource, _mig_device(gpu, mig, minors)


def _problem_of(gpu: Gpu, mig: MigDevice, minors: MigMinors, patterns: ResourcePatterns) -> DeviceProblem | None:
    step = f"{BUILDING_MIG}: {_VISITING_MIG}"
    if mig.profile is None:
        where = f"error getting MIG profile for MIG device at index '({gpu.index}, {mig.slot})'"
        problem = f"{where}: no matching profile IDs found"
    elif patterns.resource_of_profile(str(mig.profile)) is None:
        problem = f"MIG profile '{mig.profile}' does not match any resource patterns"
    elif not gpu.has_node:
        step += f": {_PATHS}"
        problem = _without_node(gpu)
    elif _caps(gpu, mig, minors) is None:
        step += f": {_PATHS}"
        path = f"{_CAPABILITIES}/gpu{gpu.minor}/mig/gi{mig.gpu_instance}/access"
        problem = f"missing MIG GPU instance capability path: {path}"
    else:
        return None
    return DeviceProblem(step, problem, gpu.index)


def _mig_device(gpu: Gpu, mig: MigDevice, minors: MigMinors) -> NvidiaDevice:
    return NvidiaDevice(
        mig.uuid,
        f"{gpu.index}:{mig.slot}",
        DeviceKind.MIG,
        gpu.uuid,
        mig.gpu_instance,
        mig.compute_instance,
        paths=(_node(gpu), *(_caps(gpu, mig, minors) or ())),
        numa_node=gpu.numa_node,
        memory_bytes=mig.memory_bytes,
        compute_capability=gpu.compute_capability,
    )


def _caps(gpu: Gpu, mig: MigDevice, minors: MigMinors) -> tuple[str, str] | None:
    """The device nodes of both instances; None if one is missing."""
    gpu_instance = minors.gpu_instances.get((gpu.minor, mig.gpu_instance))
    compute_instance = minors.compute_instances.get((gpu.minor, mig.gpu_instance, mig.compute_instance))
    if gpu_instance is None or compute_instance is None:
        return None
    return f"/dev/nvidia-caps/nvidia-cap{gpu_instance}", f"/dev/nvidia-caps/nvidia-cap{compute_instance}"


def _without_node(gpu: Gpu) -> str:
    return f"GPU {gpu.index} has no device node: error getting GPU device minor number: Not Supported"


def _node(gpu: Gpu) -> str:
    return f"/dev/nvidia{gpu.minor}"


def _check_single(gpus: Sequence[Gpu], *, is_uniform: bool) -> list[DeviceProblem]:
    """The problems that the strategy ``single`` has with a node.

    Args:
        gpus: those in MIG mode.
        is_uniform: whether there are no others.
    """
    problems = [_unconfigured(gpu) for gpu in gpus if not gpu.mig_devices]
    kinds = {device.attributes for gpu in gpus for device in gpu.mig_devices}
    if len(kinds) > 1:
        problem = "more than one MIG device type present on node"
        problems.append(DeviceProblem(f"{INVALID_MIG}: {_VISITING_MIG}", problem, cost=NO_MIG))
    if not is_uniform:
        problem = "all devices on the node must be configured with the same migEnabled value"
        problems.append(DeviceProblem(FROM_RESOURCES, problem, cost=NO_MIG))
    return problems


def _unconfigured(gpu: Gpu) -> DeviceProblem:
    step = f"{INVALID_MIG}: at least one device with migEnabled=true was not configured correctly"
    problem = f"device {gpu.index} has no MIG devices configured"
    return DeviceProblem(f"{step}: error visiting device", problem, gpu.index)
