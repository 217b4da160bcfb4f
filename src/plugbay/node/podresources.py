"""The node's pods as the PodResources service asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from plugbay.model.pods import pod_request
from plugbay.model.requests import PodRequest
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord
from plugbay.pods.store.table import PodTable


class KnownPods:
    """A `plugbay.manager.serving.podresources.PodSource`: the pods that have their place on this node."""

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods

    def active_pods(self) -> Iterator[PodRequest]:
        return (pod_request(record.pod) for record in self._pods if _is_active(record))

    def all_pods(self) -> Iterator[PodRequest]:
        return (pod_request(record.pod) for record in self._pods if record.bound_at is not None)


def _is_active(record: PodRecord) -> bool:
    """One that is refused after a restart, or deleted, is active as long as something of it runs."""
    match record.stage:
        case PodStage.BOUND | PodStage.ACTIVE:
            return record.rejection is None or bool(record.running())
        case PodStage.TERMINATING:
            return bool(record.running())
        case _:
            return False
