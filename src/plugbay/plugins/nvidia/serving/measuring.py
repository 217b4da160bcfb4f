"""Ask the driver for measurements, and bring them together with what else is known of the GPUs."""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from typing import Final

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.model.podresources import PodResources
from plugbay.ops.metrics import Metric
from plugbay.plugins.nvidia.monitoring import GpuReading, gpu_metrics, holders_of
from plugbay.plugins.nvidia.nvml.values import GpuMetrics
from plugbay.plugins.nvidia.serving.health import NodeHealth
from plugbay.plugins.nvidia.serving.node import NodeView
from plugbay.plugins.nvidia.serving.sight import Sight

logger = logging.getLogger(__name__)

_WITHIN_S: Final = 2.0
"""Less than a page waits for all of the metrics here: those that need no driver are shown in any case."""


async def measure(view: NodeView, health: NodeHealth, pods: Sequence[PodResources] | None) -> list[Metric]:
    """The metrics of a node's GPUs. While the driver does not answer, only those that it is not needed for.

    Args:
        pods: the pods with their devices; None when they are not known.
    """
    sight = view.sight
    if sight is None:
        return []
    measured, trouble = await _measured(view, sight)
    return gpu_metrics(
        GpuReading(
            sight.survey,
            trouble,
            sight.resources,
            {each.uuid: each for each in measured},
            {device.id: health.health_of(device, sight) for device in sight.devices()},
            holders_of(pods or (), sight.resources),
            dict(health.xid_counts),
            dict(health.last_xids),
            platform.node(),
        )
    )


async def _measured(view: NodeView, sight: Sight) -> tuple[tuple[GpuMetrics, ...], str]:
    """The measurements, and in one word why there are none."""
    if sight.trouble is not None:
        return (), sight.trouble.reason
    if sight.survey is None or not sight.survey.gpus:
        return (), ""
    try:
        return await view.dispensable.answer("measurements", view.nvml.metrics, within_s=_WITHIN_S), ""
    except DriverUnusable as error:
        return (), error.reason
    except DriverCallFailed as error:
        logger.warning("GPUs are not measured: %s", error)
        return (), "DriverFailed"
