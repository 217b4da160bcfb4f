"""The device nodes that give access to MIG instances, by their minor numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.values import dataclass

PATH: Final = "proc/driver/nvidia-caps/mig-minors"
"""The file that the driver writes, below the root of the machine."""
_GPU_INSTANCE: Final = re.compile(r"gpu(\d+)/gi(\d+)/access")
_COMPUTE_INSTANCE: Final = re.compile(r"gpu(\d+)/gi(\d+)/ci(\d+)/access")


@dataclass(frozen=True, slots=True)
class MigMinors:
    """The minor numbers of ``/dev/nvidia-caps/nvidia-cap<minor>``.

    Attributes:
        gpu_instances: by the minor number of the GPU and the ID of the GPU instance.
        compute_instances: by these two and the ID of the compute instance.
        config, monitor: of the nodes with which MIG devices are made, and watched; None without one.

    Source: the driver's ``mig-minors``, nvidia-container-toolkit ``internal/nvcaps``.
    """

    gpu_instances: Mapping[tuple[int, int], int]
    compute_instances: Mapping[tuple[int, int, int], int]
    config: int | None = None
    monitor: int | None = None

    @classmethod
    def parse(cls, text: str) -> MigMinors:
        """Read the driver's file: lines of a name and a minor number. Lines of other kinds are left out."""
        gpu_instances: dict[tuple[int, int], int] = {}
        compute_instances: dict[tuple[int, int, int], int] = {}
        others: dict[str, int] = {}
        for line in text.splitlines():
            name, _, number = line.strip().partition(" ")
            if not (number.isascii() and number.isdigit()):
                continue
            if match := _GPU_INSTANCE.fullmatch(name):
                gpu_instances[int(match[1]), int(match[2])] = int(number)
            elif match := _COMPUTE_INSTANCE.fullmatch(name):
                compute_instances[int(match[1]), int(match[2]), int(match[3])] = int(number)
            else:
                others[name] = int(number)
        return cls(gpu_instances, compute_instances, others.get("config"), others.get("monitor"))


NO_MIG_MINORS: Final = MigMinors({}, {})
"""The driver has no such file: it knows no MIG."""
