"""The values that describe the GPUs of a machine. Pure.

A `Survey` holds the answers of a driver at one moment. `plugbay.plugins.nvidia.nvml` makes one from a driver, and tests
make theirs by hand; all that follows (resources, answers, choices, labels, CDI specs) is computed from it.
"""

from plugbay.plugins.nvidia.survey.gpus import (
    Addressing,
    Fabric,
    Gpu,
    GpuUuid,
    MigMode,
    UnreadableGpu,
    Virtualization,
    architecture_of,
    normalise_bus_id,
)
from plugbay.plugins.nvidia.survey.links import LinkMatrix, P2PLevel
from plugbay.plugins.nvidia.survey.mig import MigAttributes, MigDevice, MigUuid
from plugbay.plugins.nvidia.survey.mig_minors import MigMinors
from plugbay.plugins.nvidia.survey.profiles import MigProfile
from plugbay.plugins.nvidia.survey.survey import UNKNOWN_VERSION, Survey

__all__ = [
    "UNKNOWN_VERSION",
    "Addressing",
    "Fabric",
    "Gpu",
    "GpuUuid",
    "LinkMatrix",
    "MigAttributes",
    "MigDevice",
    "MigMinors",
    "MigMode",
    "MigProfile",
    "MigUuid",
    "P2PLevel",
    "Survey",
    "UnreadableGpu",
    "Virtualization",
    "architecture_of",
    "normalise_bus_id",
]
