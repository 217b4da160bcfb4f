"""A node on one machine: where the manager, pods, a container runtime and the control socket are put together.

The names of ``__all__`` are public; `docs/python.md` shows their use.

May live here: wiring, the node's configuration, its API and pages, and the reading of clock and environment for
everything below. May not: a pod's life (`pods`), containers (`runtimes`), device decisions (`manager`), arguments and
output of commands (`cli`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugbay.doors import opens

if TYPE_CHECKING:
    from plugbay.manager.gates import parse_feature_gates
    from plugbay.node.config import CriConfig, NodeConfig, OciConfig
    from plugbay.node.run import open_node, run_node
    from plugbay.ops.clock import SystemClock
    from plugbay.pods.admission import Joining
    from plugbay.pods.devices import DeviceFailure
    from plugbay.runtimes.logs.files import LogLimits
    from plugbay.runtimes.mounts import MissingMount
    from plugbay.topology.settings import TopologySettings

__all__ = [
    "CriConfig",
    "DeviceFailure",
    "Joining",
    "LogLimits",
    "MissingMount",
    "NodeConfig",
    "OciConfig",
    "SystemClock",
    "TopologySettings",
    "open_node",
    "parse_feature_gates",
    "run_node",
]

if not TYPE_CHECKING:  # else a misspelt name would go unnoticed
    __getattr__, __dir__ = opens(
        __name__,
        {
            "plugbay.manager.gates": ["parse_feature_gates"],
            "plugbay.node.config": ["CriConfig", "NodeConfig", "OciConfig"],
            "plugbay.node.run": ["open_node", "run_node"],
            "plugbay.ops.clock": ["SystemClock"],
            "plugbay.pods.admission": ["Joining"],
            "plugbay.pods.devices": ["DeviceFailure"],
            "plugbay.runtimes.logs.files": ["LogLimits"],
            "plugbay.runtimes.mounts": ["MissingMount"],
            "plugbay.topology.settings": ["TopologySettings"],
        },
    )
