"""Which of the choices a request gets. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.model.sharing import SEPARATOR
from plugbay.plugins.nvidia.choosing.aligned import aligned
from plugbay.plugins.nvidia.choosing.shared import SharedChoice
from plugbay.plugins.nvidia.survey import LinkMatrix


def preferred(
    listed: Sequence[str],
    available: Sequence[str],
    must_include: Sequence[str],
    size: int,
    *,
    links: LinkMatrix | None,
    shared: SharedChoice,
) -> list[str]:
    """The IDs to prefer for one container.

    A request for whole GPUs gets the best connected ones, whatever ``shared`` is; one with replicas, or of a resource
    with other devices, is left to ``shared``.

    Args:
        listed: all IDs of the resource, whatever their health.
        links: of the machine's GPUs; None when not every device of the resource is a whole GPU (MIG, WSL, Tegra).

    Returns:
        As `aligned` or ``shared`` have it; ``[]`` for a request that cannot be met, as NVIDIA's plugin.

    Raises:
        AllocationError: an ID is unknown, or too few devices are available.

    Source: k8s-device-plugin 0.20 ``internal/rm/rm.go``, ``nvml_manager.go``, ``GetPreferredAllocation``; spec 5.4.
    """
    if links is None or any(SEPARATOR in each for each in available):
        return shared(listed, available, must_include, size)
    return aligned(links, available, must_include, size)
