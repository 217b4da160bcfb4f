"""The place of a MIG device as drivers before 470 wrote it into its UUID. Pure; in the worker process as well.

Source: k8s-device-plugin 0.20 ``internal/rm/health.go``, ``parseMigDeviceUUID``; spec 4.2.
"""

from __future__ import annotations

from typing import NamedTuple


class MigPlacement(NamedTuple):  # a dataclass would bring `inspect`, a quarter of the worker's start
    """The GPU of a MIG device, and the IDs of its instances."""

    gpu_uuid: str
    gpu_instance: int
    compute_instance: int


def placement_in(uuid: str) -> MigPlacement | None:
    """The place that a UUID of the form ``MIG-GPU-<UUID>/<GPU instance>/<compute instance>`` tells; None for others."""
    mig, dash, rest = uuid.partition("-")
    gpu, *instances = rest.split("/")
    if mig != "MIG" or not dash or not gpu.startswith("GPU-") or len(instances) != 2:
        return None
    if not all(each.isascii() and each.isdecimal() for each in instances):
        return None
    return MigPlacement(gpu, *map(int, instances))
