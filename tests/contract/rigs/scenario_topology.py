"""What tests of topology share: two nodes, devices on them, and settings of the Topology Manager."""

from __future__ import annotations

from collections.abc import Collection

from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.model.topology import pretended_nodes
from plugbay.topology.settings import TopologySettings

MISALIGNED = "Resources cannot be allocated with Topology locality"
STRICT = ("restricted", "single-numa-node")
ALL = ("none", "best-effort", *STRICT)
TWO_NODES = pretended_nodes(2)


def placed(**nodes: Collection[int]) -> list[Device]:
    return [Device(name, numa_nodes=on) for name, on in nodes.items()]


def ids(*names: str) -> tuple[DeviceId, ...]:
    return tuple(map(DeviceId, names))


def settings(policy: str, scope: str = "container", **options: str) -> TopologySettings:
    return TopologySettings(policy, scope, {name.replace("_", "-"): value for name, value in options.items()})
