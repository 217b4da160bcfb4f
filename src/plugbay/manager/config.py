"""What a manager is told at start."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates
from plugbay.manager.release_rules import DEFAULT_LIMITS, ReleaseLimits
from plugbay.model.topology import ONE_NODE, NumaTopology
from plugbay.topology.settings import DEFAULT_SETTINGS, TopologySettings


class ForeignCheckpoint(Enum):
    """What to do at start about a checkpoint file that another program, probably a kubelet, wrote."""

    IMPORT = "import"
    """The file is the truth: it replaces what the store holds."""
    REFUSE = "refuse"
    """Do not start."""


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """Where a device manager serves, what it keeps, and how long it waits for plugins.

    Attributes:
        paths: the root to serve; its device-plugins directory is made if missing and cleared of sockets.
        store: the SQLite file of record, outside ``paths.device_plugins``.
        call_timeout_s: deadline of Allocate, GetPreferredAllocation and GetDevicePluginOptions. A kubelet has none, so
            one stuck plugin stops it; 60 s is longer than any plugin we know takes.
        dial_timeout_s: how long a registering plugin's socket is tried. A kubelet's is 10 s.
        pre_start_timeout_s: deadline of PreStartContainer. A kubelet's is 30 s.
        grace_period_s: how long the devices of a plugin that went away still count. A kubelet's is 5 minutes.
        on_foreign_checkpoint: what to do about a valid checkpoint file that we did not write.
        gates: feature gates; the defaults are those of kubelet 1.36.
        topology: settings of the topology manager; a kubelet's default is the policy ``none``.
        numa: the machine's NUMA nodes.
        release: limits of PostStopContainer and Deallocate, where the gate ``DeviceManagerDeallocate`` is on.
    """

    paths: KubeletPaths
    store: Path
    call_timeout_s: float = 60.0
    dial_timeout_s: float = 10.0
    pre_start_timeout_s: float = 30.0
    grace_period_s: float = 300.0
    gates: FeatureGates = DEFAULT_GATES
    on_foreign_checkpoint: ForeignCheckpoint = ForeignCheckpoint.IMPORT
    topology: TopologySettings = DEFAULT_SETTINGS
    numa: NumaTopology = ONE_NODE
    release: ReleaseLimits = DEFAULT_LIMITS
