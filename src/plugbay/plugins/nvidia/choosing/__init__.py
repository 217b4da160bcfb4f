"""The answer to GetPreferredAllocation: whole GPUs by their links, replicas and MIG devices by their use. Pure."""

from plugbay.plugins.nvidia.choosing.aligned import aligned
from plugbay.plugins.nvidia.choosing.preference import preferred
from plugbay.plugins.nvidia.choosing.shared import SharedChoice, distributed, packed, shared_choice

__all__ = ["SharedChoice", "aligned", "distributed", "packed", "preferred", "shared_choice"]
