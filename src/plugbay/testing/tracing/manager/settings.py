"""The settings of the manager that a recording is played to: those of the recorded one, as far as it tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from plugbay.errors import InvalidDocument, UnusableTopology, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates, Gate
from plugbay.model.topology import ONE_NODE, NumaTopology, pretended_nodes
from plugbay.testing.tracing.manager.played_plugins import RELEASES
from plugbay.testing.tracing.manager.script import ManagerScript
from plugbay.topology.settings import DEFAULT_SETTINGS, TopologySettings, make_policy
from plugbay.traffic.file_format import RecordingHeader

_LAST_NODE: Final = 1023
"""Linux has no more (``NODES_SHIFT`` is 10 at most)."""


def config_for(header: RecordingHeader, script: ManagerScript, root: Path, source: str) -> ManagerConfig:
    """The configuration of a manager in the private directory ``root``.

    Raises:
        InvalidDocument: the header is damaged.
    """
    gates, topology, numa = DEFAULT_GATES, DEFAULT_SETTINGS, ONE_NODE
    if header.manager:
        try:
            gates, topology, numa = _recorded(dict(header.manager))
            make_policy(topology, numa)
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError, UsageError, UnusableTopology) as error:
            raise InvalidDocument(f'"manager" is damaged: {error}', line=1, source=source) from error
    elif any(call.method in RELEASES for call in script.calls):
        gates = FeatureGates(gates.enabled | {Gate.DEVICE_MANAGER_DEALLOCATE})
    return ManagerConfig(KubeletPaths(root), root / "state" / "devices.db", gates=gates, topology=topology, numa=numa)


def _recorded(manager: dict[str, Any]) -> tuple[FeatureGates, TopologySettings, NumaTopology]:
    known = {gate.value: gate for gate in Gate}
    gates = FeatureGates(frozenset(known[name] for name in manager["feature_gates"] if name in known))
    topology = TopologySettings(
        str(manager["topology_policy"]), str(manager["topology_scope"]), dict(manager["topology_options"])
    )
    last = max(map(int, manager["numa_nodes"]), default=0)
    if not 0 <= last <= _LAST_NODE:
        raise ValueError(f"there is no NUMA node {last}")
    return gates, topology, pretended_nodes(last + 1)
