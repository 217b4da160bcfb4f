"""The health of GPUs and MIG devices: which XIDs count, when a device comes back, and what a pod is told. Pure.

The events, probes and surveys that it judges come from `plugbay.plugins.nvidia.nvml`; `serving` brings them together.
"""
