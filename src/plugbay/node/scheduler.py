"""Whether a pod fits on the one node, in the scheduler's words: pure.

Amounts are whole numbers: cpu in thousandths, everything else in units.

Source: Kubernetes 1.36 ``component-helpers/resource/helpers.go`` (a pod's request), ``noderesources/fit.go``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, Pod
from plugbay.model.requests import ContainerKind

CPU: Final = "cpu"
PODS: Final = "pods"

Amounts = Mapping[str, int]


def demand(pod: Pod) -> Counter[str]:
    """What ``pod`` needs at its most demanding moment, itself included under ``pods``.

    While an init container runs, the sidecars before it run too; later all sidecars and app containers run together.
    """
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        if container.kind is ContainerKind.SIDECAR:
            sidecars += _request(container)
            peak |= sidecars
        else:
            peak |= sidecars + _request(container)
    together = sidecars.copy()
    for container in pod.spec.containers:
        together += _request(container)
    peak |= together
    peak[PODS] = 1
    return peak


def _request(container: Container) -> Counter[str]:
    amounts = {
        name: (_milli(amount.value) if name == CPU else amount.to_int_ceil())
        for name, amount in container.requests.items()
    }
    return Counter(amounts)


def _milli(value: Fraction) -> int:
    return math.ceil(value * 1000)


class Ledger:
    """What the pods on the node need together, kept as running totals."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._demands: dict[PodUid, Counter[str]] = {}

    def used_beside(self, pods: Iterable[PodUid]) -> Amounts:
        """What all pods but these need."""
        used = self._used.copy()
        for pod in pods:
            used.subtract(self._demands.get(pod, Counter()))
        return used

    def add(self, pod: PodUid, needed: Counter[str]) -> None:
        """Count a pod; harmless twice."""
        self.remove(pod)
        self._demands[pod] = needed
        self._used.update(needed)

    def remove(self, pod: PodUid) -> None:
        """Count a pod no longer; harmless for one that is not counted."""
        needed = self._demands.pop(pod, None)
        if needed is not None:
            self._used.subtract(needed)

    def lacking(self, needed: Amounts, allocatable: Amounts) -> list[str]:
        """The resources of which a further pod cannot get what it needs, sorted."""
        return sorted(
            name
            for name, amount in needed.items()
            if amount > 0 and self._used[name] + amount > allocatable.get(name, 0)
        )


def unschedulable_message(lacking: Iterable[str]) -> str:
    """What ``kubectl describe`` shows of a pod that does not fit."""
    return unschedulable_for(*("Too many pods" if name == PODS else f"Insufficient {name}" for name in lacking))


def unschedulable_for(*reasons: str) -> str:
    """The same, for any reasons."""
    return (
        f"0/1 nodes are available: {', '.join(f'1 {reason}' for reason in sorted(reasons))}. "
        "no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


CORDONED: Final = (
    "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
"""What it shows while the node is cordoned."""
