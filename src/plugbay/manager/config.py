"""What a manager is told at start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """
    Attributes:
        paths: the root to serve; its device-plugins directory is made if missing and cleared of sockets.
        store: the SQLite file of record, outside ``paths.device_plugins``.
        call_timeout_s: deadline of Allocate, GetPreferredAllocation and GetDevicePluginOptions. A kubelet has none, so
            one stuck plugin stops it; 60 s is longer than any plugin we know takes.
        grace_period_s: how long the devices of a plugin that went away still count. A kubelet's is 5 minutes.
        gates: feature gates; the defaults are those of kubelet 1.36.
    """

    paths: KubeletPaths
    store: Path
    call_timeout_s: float = 60.0
    grace_period_s: float = 300.0
    gates: FeatureGates = DEFAULT_GATES
