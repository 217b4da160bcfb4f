"""The predicates by which a kubelet keeps or rejects a pod that has come to its node. Pure.

Source: kubelet 1.36 ``lifecycle/predicate.go``, ``noderesources/fit.go``; Kubernetes 1.36
``scheduler/framework/plugins/nodeports``; spec 4.11.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from plugbay.model.ids import PodUid, ResourceName, is_extended_resource
from plugbay.model.pods import Pod
from plugbay.model.ports import ContainerPort, conflict
from plugbay.model.requests import ContainerKind
from plugbay.model.taints import Effect, untolerated
from plugbay.pods.record import Rejection
from plugbay.pods.scheduling.constraints import Site, fits_node
from plugbay.pods.scheduling.ledger import Amounts

NO_FREE_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")
"""The node's own resources in the order in which they are looked at; others come after them."""


def resources_fit(needed: Amounts, *, used: Amounts, allocatable: Amounts) -> Rejection | None:
    """The reason why there is not enough for a pod; the first one of several.

    An extended resource that the node does not know does not count: another component looks after it, if any.
    """
    rest = sorted(needed.keys() - set(_FIRST))
    for name in (*_FIRST, *rest):
        amount = needed.get(name, 0)
        if name not in allocatable and is_extended_resource(name):
            continue
        if amount > 0 and used.get(name, 0) + amount > allocatable.get(name, 0):
            return out_of(name, needed=needed, used=used, allocatable=allocatable)
    return None


def node_fits(pod: Pod, site: Site, *, has_ports: bool, is_static: bool) -> Rejection | None:
    """The reason besides resources why the pod cannot be here; a static pod stays whatever drives pods away."""
    if not fits_node(pod.spec.placement, site):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if not has_ports:
        return _failed("NodePorts", NO_FREE_PORTS)
    if not is_static and untolerated(site.taints, pod.spec.placement.tolerations, (Effect.NO_EXECUTE,)):
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(name: str, why: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {why}")


def out_of(name: str, *, needed: Amounts, used: Amounts, allocatable: Amounts) -> Rejection:
    """The rejection of a pod for which there is not enough of a resource."""
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {needed[name]}, used: {used.get(name, 0)}, "
        f"capacity: {allocatable.get(name, 0)}",
    )


def raised(allocatable: Amounts, in_use: Mapping[ResourceName, int]) -> Amounts:
    """The amounts that count as allocatable for a pod that has its devices already.

    It must not be refused because a plugin is gone and nothing is allocatable any more: devices that are held exist.
    """
    return {**allocatable, **{str(name): max(count, allocatable.get(name, 0)) for name, count in in_use.items()}}


def host_ports(pod: Pod) -> tuple[ContainerPort, ...]:
    """The ports of the host that a pod has as long as it runs: the ports of its app containers and sidecars."""
    lasting = (each for each in pod.spec.all_containers if each.kind is not ContainerKind.INIT)
    return tuple(port for container in lasting for port in container.ports if port.host_port)


class HostPorts:
    """The ports of the host that pods have; most pods have none."""

    def __init__(self) -> None:
        self._taken: dict[PodUid, tuple[ContainerPort, ...]] = {}

    def add(self, pod: Pod) -> None:
        if ports := host_ports(pod):
            self._taken[pod.uid] = ports

    def remove(self, pod: PodUid) -> None:
        self._taken.pop(pod, None)

    def are_free(self, pod: Pod, *, ignoring: Collection[PodUid] = ()) -> bool:
        """Whether no other pod has a port that ``pod`` wants. Ports repeated inside a pod do not conflict."""
        wanted = host_ports(pod)
        return not any(
            self._meet(wanted, taken) for uid, taken in self._taken.items() if uid != pod.uid and uid not in ignoring
        )

    @staticmethod
    def _meet(wanted: Sequence[ContainerPort], taken: Sequence[ContainerPort]) -> bool:
        return any(conflict(one, other) for one in wanted for other in taken)
