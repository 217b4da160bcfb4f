"""The part of a node that is kept: what its clients write, and since when it is there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Final

from plugbay.model.taints import Taint
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class NodeInput:
    """The writings of clients in a node, and when it registered; what else the node says of itself is not here.

    Attributes:
        labels: without those that the node gives itself.
        taints: without the one that a cordon brings.
        cordoned_since: None while the node takes new pods.
        extended: amounts of resources that clients advertise and no plugin does.
        conditions: v1's NodeConditions that clients set, by their type.
        managed: v1's managed fields: which client owns which field of the node; empty before one has written.
        registered_at: the moment at which it first started on its root; None before that.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned_since: datetime | None = None
    extended: Mapping[str, int] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    managed: tuple[Mapping[str, object], ...] = ()
    registered_at: datetime | None = None


NO_INPUT: Final = NodeInput()


def well_known_labels(name: str, architecture: str) -> dict[str, str]:
    """The labels that a node gives itself and keeps, as a kubelet does.

    Source: kubelet 1.36 ``kubelet_node_status.go`` (initialNode, updateDefaultLabels).
    """
    return {
        "beta.kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
