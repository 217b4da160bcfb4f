"""The configuration of a Device Manager."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates
from plugbay.model.topology import ONE_NODE, NumaTopology
from plugbay.topology.settings import DEFAULT_SETTINGS, TopologySettings
from plugbay.values import dataclass


class Exhaustion(Enum):
    """The fate of devices whose Deallocate was never confirmed."""

    FREE = "free"
    """The devices are given out again: the plugin had enough chances."""
    QUARANTINE = "quarantine"
    """The devices stay out of use until the plugin registers again, or reports them unhealthy and then healthy."""


class Unconfirmed(Enum):
    """The fate of a container's next start when its last PostStopContainer is not confirmed in time."""

    START = "start"
    """The container starts; an event tells of the missing call."""
    FAIL = "fail"
    """The start fails and is tried again."""


@dataclass(frozen=True, slots=True)
class ReleaseLimits:
    """Limits of PostStopContainer and Deallocate, and what happens if a plugin does not confirm them.

    Attributes:
        attempt_timeout_s: deadline of one call; the default is the same as for PreStartContainer.
        wait_s: how long the next start of a container, or the end of a pod, waits for its calls, all together; 0 for
            not at all.
        max_age_s, max_attempts: age and number of attempts at which a call that is not confirmed is given up.
        parallel: number of calls to one plugin at a time.
        on_exhaustion: what happens to devices whose Deallocate was given up.
        on_unconfirmed: what happens to a start whose PostStopContainer is late.
    """

    attempt_timeout_s: float = 30.0
    wait_s: float = 60.0
    max_age_s: float = 24 * 3600.0
    max_attempts: int = 1000
    parallel: int = 16
    on_exhaustion: Exhaustion = Exhaustion.FREE
    on_unconfirmed: Unconfirmed = Unconfirmed.START


DEFAULT_LIMITS: Final = ReleaseLimits()


class ForeignCheckpoint(Enum):
    """How to start when another program, probably a kubelet, wrote the checkpoint file."""

    IMPORT = "import"
    """The file is the truth: it replaces what the store holds."""
    REFUSE = "refuse"
    """Do not start."""


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """The configuration of a Device Manager: where it serves, what it keeps, and how long it waits for plugins.

    Attributes:
        paths: the root to serve; its device-plugins directory is made if missing and cleared of sockets.
        store: the SQLite file of record, outside ``paths.device_plugins``.
        plugins_group: the number of a group whose members may register plugins at ``kubelet.sock``; None is root, or
            the user of this process, alone.
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
    plugins_group: int | None = None
