"""The problems that keep devices from being offered, in the words of NVIDIA's plugin. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.config.choices import MigStrategy
from plugbay.values import dataclass

STARTING: Final = "error starting plugins"
_PLUGINS: Final = f"{STARTING}: error getting plugins: unable to create plugins"
_MANAGERS: Final = f"{_PLUGINS}: failed to construct resource managers"
FROM_RESOURCES: Final = f"{_MANAGERS}: error building device map: error building device map from config.resources"
_PATTERNS: Final = f"{STARTING}: unable to add default resources to config"
VISITING_FOR_PATTERNS: Final = f"{_PATTERNS}: error visiting devices"
BUILDING_GPUS: Final = f"{FROM_RESOURCES}: error building GPU device map"
BUILDING_MIG: Final = f"{FROM_RESOURCES}: error building MIG device map"
INVALID_MIG: Final = f"{FROM_RESOURCES}: invalid MIG configuration"
REPLICATING: Final = f"{_MANAGERS}: error building device map: error updating device map with replicas"
SHARING: Final = f"{_PLUGINS}: failed to create plugin"
NO_MIG: Final = "no MIG device is offered"
NOT_SHARED: Final = "not all devices are shared as configured"
LIBRARY_NOT_FOUND: Final = "ERROR_LIBRARY_NOT_FOUND"
"""The driver's library cannot be loaded; in place of the driver's own text."""


@dataclass(frozen=True, slots=True)
class DeviceProblem:
    """Why a device, or all of them, cannot be offered as the configuration wants it.

    Attributes:
        step: the words that NVIDIA's plugin puts in front.
        problem: a sentence.
        gpu: the index of the GPU that it is about; None for the node as a whole.
        cost: what is not there for it while the plugin runs on, as half a sentence; empty for a device of ``gpu``.
    """

    step: str
    problem: str
    gpu: int | None = None
    cost: str = ""

    def sentence(self) -> str:
        """The problem of a plugin that runs on, for the log."""
        return f"{self.cost or f'a device of GPU {self.gpu} is not offered'}: {self.problem}"

    def error(self) -> GpusUnusable:
        return GpusUnusable(self.problem, self.step)


def init_problem(reason: str, strategy: MigStrategy) -> DeviceProblem:
    """The driver cannot be initialised.

    Args:
        reason: the driver's own text, such as ``Driver Not Loaded``, or `LIBRARY_NOT_FOUND`.
    """
    if strategy is MigStrategy.MIXED and reason != LIBRARY_NOT_FOUND:
        return DeviceProblem(_PATTERNS, f"failed to initialize NVML: {reason}")
    return DeviceProblem(_MANAGERS, f"nvml init failed: {reason}")


def check_problems(problems: Sequence[DeviceProblem], *, fail_on_init_error: bool) -> None:
    """End the start if there are problems and the configuration wants it; otherwise what works is offered.

    Raises:
        GpusUnusable: the first problem.
    """
    if problems and fail_on_init_error:
        raise problems[0].error()
