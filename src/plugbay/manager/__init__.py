"""The kubelet's side of the socket: endpoints, device state, admission, durable assignments.

`admission` and `state` decide and hold; `endpoints`, `release`, `store` and `manager` perform the effects. One
event loop owns the state: every change to it is a plain method call without an await inside. The names of ``__all__``
are public; `docs/python.md` shows their use.

May live here: what a kubelet's Device Manager does. May not: pods as people write them (`node`), the plugin's side
(`sdk`), ready-made plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugbay.doors import opens

if TYPE_CHECKING:
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.manager.admission.topology import HintProvider, PodPart
    from plugbay.manager.config import ForeignCheckpoint, ManagerConfig
    from plugbay.manager.gates import parse_feature_gates
    from plugbay.manager.manager import DeviceManager, run_manager
    from plugbay.manager.serving.podresources import serve_pod_resources
    from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
    from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
    from plugbay.ops.clock import SystemClock
    from plugbay.topology.settings import TopologySettings

__all__ = [
    "ContainerKind",
    "ContainerName",
    "ContainerRequest",
    "DeviceId",
    "DeviceManager",
    "ForeignCheckpoint",
    "HintProvider",
    "KubeletPaths",
    "ManagerConfig",
    "PodPart",
    "PodRequest",
    "PodUid",
    "ResourceName",
    "SystemClock",
    "TopologySettings",
    "parse_feature_gates",
    "run_manager",
    "serve_pod_resources",
]

if not TYPE_CHECKING:  # else a misspelt name would go unnoticed
    __getattr__, __dir__ = opens(
        __name__,
        {
            "plugbay.kubelet.paths": ["KubeletPaths"],
            "plugbay.manager.admission.topology": ["HintProvider", "PodPart"],
            "plugbay.manager.config": ["ForeignCheckpoint", "ManagerConfig"],
            "plugbay.manager.gates": ["parse_feature_gates"],
            "plugbay.manager.manager": ["DeviceManager", "run_manager"],
            "plugbay.manager.serving.podresources": ["serve_pod_resources"],
            "plugbay.model.ids": ["ContainerName", "DeviceId", "PodUid", "ResourceName"],
            "plugbay.model.requests": ["ContainerKind", "ContainerRequest", "PodRequest"],
            "plugbay.ops.clock": ["SystemClock"],
            "plugbay.topology.settings": ["TopologySettings"],
        },
    )
