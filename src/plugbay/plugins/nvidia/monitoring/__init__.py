"""Metrics of GPUs, joined with the containers that hold them. Pure.

Names and labels are those of DCGM exporter where it has one for the same value, so that its dashboards and alerts work;
the others begin with ``plugbay_nvidia_``.
"""

from plugbay.plugins.nvidia.monitoring.holders import Holder, holders_of
from plugbay.plugins.nvidia.monitoring.series import GpuReading, gpu_metrics

__all__ = ["GpuReading", "Holder", "gpu_metrics", "holders_of"]
