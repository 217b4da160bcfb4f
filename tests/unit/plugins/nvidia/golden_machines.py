"""The machines of the golden data as surveys, and configurations as NVIDIA's plugin is given them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from plugbay.plugins.nvidia.config.arguments import parse_arguments, parse_environment
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.file import ConfigContent, parse_file
from plugbay.plugins.nvidia.config.validation import validate
from plugbay.plugins.nvidia.survey import (
    Gpu,
    GpuUuid,
    MigAttributes,
    MigDevice,
    MigMinors,
    MigMode,
    MigProfile,
    MigUuid,
    Survey,
    normalise_bus_id,
)

GOLDEN: Final = Path(__file__).parents[3] / "golden" / "nvidia-plugin"
Case = Mapping[str, Any]


@cache
def golden(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_bytes())
    return read


def machine(name: str, *, of: str = "allocate") -> Survey:
    """A node of one of the golden files, by default of the Allocate data."""
    node, numa = golden(of)["nodes"][name], golden("allocate")["numa_node_files"]
    gpus = []
    for index, gpu in enumerate(node["gpus"]):
        bus_id = normalise_bus_id(gpu["bus_id"])
        numa_node = numa.get(bus_id, -1)
        is_enabled = gpu["mig_mode"] == "enabled"
        memory = gpu["memory_bytes"]
        profiles = [each for each in node.get("gpu_instance_profiles", ()) if each["gpu"] == index]
        gpus.append(
            Gpu(
                index=index,
                minor=gpu["minor"],
                uuid=GpuUuid(gpu["uuid"]),
                name=gpu["name"],
                pci_bus_id=bus_id,
                memory_bytes=memory,
                compute_capability=(8, 0),
                numa_node=numa_node if numa_node >= 0 else None,
                mig=MigMode(is_enabled, is_enabled),
                mig_devices=tuple(
                    _mig(each, gpu["uuid"], memory) for each in node.get("mig_devices", ()) if each["gpu"] == index
                ),
                mig_profiles=tuple(
                    MigProfile.of_gpu_instance(
                        gpu_instance_profile=each["profile_index"],
                        memory_mib=each["memory_mib"],
                        gpu_memory_bytes=memory,
                    )
                    for each in profiles
                ),
            )
        )
    return Survey("550.54.15", (12, 4), tuple(gpus))


def _mig(each: Case, parent: str, gpu_memory_bytes: int) -> MigDevice:
    profile = MigProfile.of_device(
        gpu_instance_profile=each["gi_profile_index"],
        compute_instance_profile=each["ci_profile_index"],
        memory_mib=each["attr_memory_mib"],
        gpu_memory_bytes=gpu_memory_bytes,
    )
    attributes = MigAttributes(
        each["attr_memory_mib"], each["attr_multiprocessors"], each["attr_gpu_slices"], each["attr_compute_slices"]
    )
    uuid = MigUuid(each["uuid"])
    return MigDevice(each["slot"], uuid, parent, each["gi_id"], each["ci_id"], profile, attributes)


def minors() -> MigMinors:
    """The minors of the golden data's rule."""
    gpu_instances: dict[tuple[int, int], int] = {}
    compute_instances: dict[tuple[int, int, int], int] = {}
    for gpu in range(2):
        for instance in range(15):
            minor = 3 + (gpu * 15 + instance) * 9
            gpu_instances[gpu, instance] = minor
            compute_instances.update({(gpu, instance, compute): minor + 1 + compute for compute in range(8)})
    return MigMinors(gpu_instances, compute_instances, 1, 2)


def configured(
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    config: str | None = None,
    *,
    dialect: Dialect = Dialect.REFERENCE,
    has_nvml: bool = True,
) -> Configuration:
    """The configuration of a command line, an environment and a file's content."""
    content = ConfigContent(dialect=dialect)
    if config is not None:
        content = parse_file(config, source="config.yaml", dialect=dialect)
    return validate(content, parse_arguments(arguments), parse_environment(environment or {}), has_nvml=has_nvml)
