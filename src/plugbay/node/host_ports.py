"""Ports of the host that the pods on the node have, and whether a further pod can have those it wants: pure.

Source: Kubernetes 1.36 ``scheduler/framework/plugins/nodeports``, kubelet ``lifecycle/predicate.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.model.ports import ContainerPort, conflict
from plugbay.model.requests import ContainerKind
from plugbay.node.records import Rejection

NO_FREE_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
REJECTION: Final = Rejection("NodePorts", f"Predicate NodePorts failed: {NO_FREE_PORTS}")


def host_ports(pod: Pod) -> tuple[ContainerPort, ...]:
    """What a pod wants of the host as long as it runs: the ports of its app containers and sidecars."""
    lasting = (each for each in pod.spec.all_containers if each.kind is not ContainerKind.INIT)
    return tuple(port for container in lasting for port in container.ports if port.host_port)


class HostPorts:
    """Who has which ports; most pods have none."""

    def __init__(self) -> None:
        self._taken: dict[PodUid, tuple[ContainerPort, ...]] = {}

    def add(self, pod: Pod) -> None:
        if ports := host_ports(pod):
            self._taken[pod.uid] = ports

    def remove(self, pod: PodUid) -> None:
        self._taken.pop(pod, None)

    def are_free(self, pod: Pod, *, ignoring: Collection[PodUid] = ()) -> bool:
        """Whether no other pod has a port that ``pod`` wants. Ports repeated inside a pod are no conflict."""
        wanted = host_ports(pod)
        return not any(
            self._meet(wanted, taken) for uid, taken in self._taken.items() if uid != pod.uid and uid not in ignoring
        )

    @staticmethod
    def _meet(wanted: Sequence[ContainerPort], taken: Sequence[ContainerPort]) -> bool:
        return any(conflict(one, other) for one in wanted for other in taken)
