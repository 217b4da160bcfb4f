"""The settings of a kubelet for tests, and the Device Manager's configuration that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Final, TypedDict

from plugbay.errors import UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.config import ManagerConfig
from plugbay.manager.gates import Gate, parse_feature_gates
from plugbay.model.topology import pretended_nodes
from plugbay.topology.settings import TopologySettings
from plugbay.values import dataclass

PATIENCE_S: Final = 10.0
"""How long a test waits for something that should happen at once."""
CALL_S: Final = 60.0
"""Our Device Manager's own limit of a call to a plugin."""
_FOREVER_S: Final = 24 * 3600.0


class KubeletOptions(TypedDict, total=False):
    """The keywords of `local_kubelet`, `Kubelet`, the fixtures and the marker ``kubelet``.

    Attributes:
        as_kubelet: a version of Kubernetes from ``"1.20"`` to ``"1.37"`` whose kubelet it is to be like, with that
            kubelet's defects; by default it is our Device Manager, which has none of them.
        node: whether it is a whole node, which runs pods as plain processes: see ``run``.
        api: whether clients of Kubernetes reach it, by ``kubeconfig`` and ``clients``; it is a whole node then.
        numa_nodes: the number of NUMA nodes of the machine; devices name nodes from 0 on.
        topology_policy: ``none``, ``best-effort``, ``restricted`` or ``single-numa-node``.
        topology_scope: ``container`` or ``pod``.
        topology_options: a kubelet's ``topologyManagerPolicyOptions``.
        feature_gates: ``"Gate=true,Other=false"``, or the same as a mapping.
        grace_period_s: how long the devices of a plugin that is gone still count; a kubelet's is 300.
        call_timeout_s: deadline of calls to plugins: 60, and a day with ``as_kubelet``, since kubelets have none.
        within_s: how long ``plugin``, ``restart`` and ``wait_for`` wait unless they are told otherwise.
    """

    as_kubelet: str | None
    node: bool
    api: bool
    numa_nodes: int
    topology_policy: str
    topology_scope: str
    topology_options: Mapping[str, str]
    feature_gates: str | Mapping[str, bool]
    grace_period_s: float
    call_timeout_s: float
    within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """`KubeletOptions` with their defaults."""

    as_kubelet: str | None = None
    node: bool = False
    api: bool = False
    numa_nodes: int = 1
    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=dict)
    feature_gates: str | Mapping[str, bool] = ""
    grace_period_s: float = 300.0
    call_timeout_s: float | None = None
    within_s: float = PATIENCE_S

    @property
    def is_node(self) -> bool:
        """Whether it is a whole node."""
        return self.node or self.api

    @property
    def call_deadline_s(self) -> float:
        if self.call_timeout_s is not None:
            return self.call_timeout_s
        return CALL_S if self.as_kubelet is None else _FOREVER_S


def settings_of(options: Mapping[str, Any]) -> KubeletSettings:
    """The settings that ``options`` make.

    Raises:
        UsageError: there is no such option, or the machine would have no NUMA node.
    """
    known = [each.name for each in fields(KubeletSettings)]
    for name in options:
        if name not in known:
            raise UsageError(f"a kubelet for tests has no option {name!r}; its options are {', '.join(known)}")
    settings = KubeletSettings(**options)
    if settings.numa_nodes < 1:
        raise UsageError(f"numa_nodes is the number of NUMA nodes, at least 1, and not {settings.numa_nodes}")
    return settings


def manager_config(settings: KubeletSettings, paths: KubeletPaths, store: Path) -> ManagerConfig:
    """The configuration of the Device Manager.

    Raises:
        UsageError: a feature gate is unknown or cannot be set so.
    """
    gates = parse_feature_gates(_gates_text(settings.feature_gates))
    if settings.as_kubelet is not None and settings.is_node:
        raise UsageError("a node of ours is like no version of Kubernetes; leave as_kubelet out, or node and api")
    if settings.as_kubelet is not None and gates.is_enabled(Gate.DEVICE_MANAGER_DEALLOCATE):
        raise UsageError(f"no kubelet has the gate {Gate.DEVICE_MANAGER_DEALLOCATE.value}; leave as_kubelet out")
    return ManagerConfig(
        paths,
        store,
        call_timeout_s=settings.call_deadline_s,
        grace_period_s=settings.grace_period_s,
        gates=gates,
        topology=TopologySettings(settings.topology_policy, settings.topology_scope, settings.topology_options),
        numa=pretended_nodes(settings.numa_nodes),
    )


def _gates_text(gates: str | Mapping[str, bool]) -> str:
    if isinstance(gates, str):
        return gates
    return ",".join(f"{name}={'true' if value else 'false'}" for name, value in gates.items())
