"""The pods that have a place on the node, and what they take of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.pods.scheduling.ledger import Amounts, Commitments, demand
from plugbay.pods.scheduling.predicates import HostPorts

NOBODY_LEFT_OUT: Final[frozenset[PodUid]] = frozenset()


class Occupancy:
    """The pods on the node. Questions can leave some of them out, as if they had gone."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._repelling: dict[PodUid, Pod] = {}
        """The pods that want others away from them; most nodes have none."""
        self._ledger = Commitments()
        self._ports = HostPorts()

    def __contains__(self, pod: object) -> bool:
        return pod in self._pods

    def add(self, pod: Pod) -> None:
        """Count a pod; harmless twice."""
        self._pods[pod.uid] = pod
        self._ledger.add(pod.uid, demand(pod))
        self._ports.add(pod)
        if pod.spec.placement.apart:
            self._repelling[pod.uid] = pod

    def remove(self, pod: PodUid) -> None:
        """Count a pod no longer; harmless for one that is not counted."""
        self._pods.pop(pod, None)
        self._repelling.pop(pod, None)
        self._ledger.remove(pod)
        self._ports.remove(pod)

    def pods(self, *, without: Collection[PodUid] = NOBODY_LEFT_OUT) -> Iterator[Pod]:
        return (pod for uid, pod in self._pods.items() if uid not in without)

    def repelling(self, *, without: Collection[PodUid] = NOBODY_LEFT_OUT) -> Iterator[Pod]:
        """Those with anti-affinity of their own."""
        return (pod for uid, pod in self._repelling.items() if uid not in without)

    def used(self, *, without: Collection[PodUid] = NOBODY_LEFT_OUT) -> Amounts:
        return self._ledger.used_beside(without)

    def lacking(self, needed: Amounts, allocatable: Amounts, *, without: Collection[PodUid]) -> list[str]:
        """The resources that are too scarce for a further pod, sorted."""
        return self._ledger.lacking(needed, allocatable, without=without)

    def ports_are_free(self, pod: Pod, *, without: Collection[PodUid] = NOBODY_LEFT_OUT) -> bool:
        return self._ports.are_free(pod, ignoring=without)
