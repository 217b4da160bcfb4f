"""Ready-made preferred allocation, for authors::

    class Cards(DevicePlugin):
        preferred_allocation = policies.same_numa

Every policy is a function ``(available, must_include, size)`` of devices. The same question has the same answer, and
the answer contains all of ``must_include``.
"""

from __future__ import annotations

from typing import Final

from plugbay.allocation.grouped import Packed, Spread
from plugbay.allocation.links import ByLinkScore
from plugbay.allocation.preference import numa_node, physical_device

__all__ = [
    "ByLinkScore",
    "Packed",
    "Spread",
    "fewest_physical",
    "numa_node",
    "physical_device",
    "same_numa",
    "spread",
]

same_numa: Final = Packed(by=numa_node)
"""All devices on one NUMA node, or on as few as possible."""
fewest_physical: Final = Packed(by=physical_device)
"""Replicas of as few physical devices as possible: a container shares with few others."""
spread: Final = Spread(by=physical_device)
"""Replicas of as many physical devices as possible, the least used ones first."""
