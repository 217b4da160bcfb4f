"""Whether a pod fits on the one node, in the scheduler's words: pure.

Amounts are whole numbers: cpu in thousandths, everything else in units.

Source: Kubernetes 1.36 ``component-helpers/resource/helpers.go`` (a pod's request), ``noderesources/fit.go``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, Pod
from plugbay.model.requests import most_at_once

CPU: Final = "cpu"
PODS: Final = "pods"

Amounts = Mapping[str, int]


def demand(pod: Pod) -> Counter[str]:
    """The amounts that ``pod`` needs at its most demanding moment, itself included under ``pods``."""
    needs = [(container.kind, _request(container)) for container in pod.spec.all_containers]
    names = {name for _, amounts in needs for name in amounts}
    peak = {name: most_at_once((kind, amounts.get(name, 0)) for kind, amounts in needs) for name in names}
    return Counter({**peak, PODS: 1})


def _request(container: Container) -> dict[str, int]:
    return {
        name: (amount.to_milli_ceil() if name == CPU else amount.to_int_ceil())
        for name, amount in container.requests.items()
    }


class Commitments:
    """The amounts that the pods on the node need together, kept as running totals."""

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._demands: dict[PodUid, Counter[str]] = {}

    def used_beside(self, pods: Iterable[PodUid]) -> Counter[str]:
        """The amounts that all pods but these need."""
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

    def lacking(self, needed: Amounts, allocatable: Amounts, *, without: Collection[PodUid] = ()) -> list[str]:
        """The resources that are too scarce for a further pod, sorted; pods ``without`` are taken for gone."""
        used = self.used_beside(without) if without else self._used
        return sorted(
            name for name, amount in needed.items() if amount > 0 and used[name] + amount > allocatable.get(name, 0)
        )
