"""What a node is told at start, and where it keeps things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ForeignCheckpoint


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """
    Attributes:
        root: everything the node keeps and serves lies below it. Absolute; unix sockets below it must not pass 107
            bytes.
        name: the node's name in the API; None is the host name, as for a kubelet.
        call_timeout_s: deadline of calls to plugins; see `plugbay.manager.config.ManagerConfig`.
        grace_period_s: how long the devices of a plugin that went away still count; a kubelet's is 5 minutes.
        on_foreign_checkpoint: what to do about a checkpoint file below ``root`` that a kubelet wrote.
    """

    root: Path
    name: str | None = None
    call_timeout_s: float = 60.0
    grace_period_s: float = 300.0
    on_foreign_checkpoint: ForeignCheckpoint = ForeignCheckpoint.IMPORT

    @property
    def kubelet_paths(self) -> KubeletPaths:
        return KubeletPaths(self.root)

    @property
    def control_socket(self) -> Path:
        return control_socket(self.root)

    @property
    def lock(self) -> Path:
        return self.root / "plugbay.lock"

    @property
    def manager_store(self) -> Path:
        return self.root / "state" / "devices.db"

    @property
    def pod_store(self) -> Path:
        return self.root / "state" / "pods.db"

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def pods(self) -> Path:
        return self.root / "pods"


def control_socket(root: Path) -> Path:
    """Where the node on ``root`` answers."""
    return root / "plugbay.sock"
