"""The pods that a list or a watch is about, as its address says."""

from __future__ import annotations

from collections.abc import Callable

from plugbay.documents import Json
from plugbay.model.ids import PodUid
from plugbay.model.selectors import parse_selector, selects
from plugbay.node.api.field_selectors import POD_FIELDS, FieldSelector
from plugbay.ops.routing import Request
from plugbay.pods.record import PodRecord
from plugbay.pods.store.watch import Change


class PodSelection:
    """The pods of a namespace, or of all, that ``labelSelector`` and ``fieldSelector`` select.

    Args:
        shown: a pod as its v1 object.

    Raises:
        UsageError: one of them is not a selector.
    """

    def __init__(self, request: Request, shown: Callable[[PodRecord], Json]) -> None:
        self._shown = shown
        self._fields = FieldSelector(request.query.get("fieldSelector", ""), POD_FIELDS)
        self._namespace = request.params.get("namespace")
        self._selector = parse_selector(request.query.get("labelSelector", ""))
        self._seen: set[PodUid] = set()

    def holds(self, record: PodRecord) -> bool:
        return (
            self._namespace in (None, record.pod.namespace)
            and selects(self._selector, record.pod.labels)
            and (not self._fields or self._fields.holds(self._shown(record)))
        )

    def seen(self, change: Change, record: PodRecord) -> Change | None:
        """``change`` as a watch of these pods has it; None when it is not about any of them.

        To such a watch a pod is added when it comes to be as asked for, and deleted when it no longer is.

        Source: apiserver 1.36 ``pkg/storage/cacher/cache_watcher.go``, ``convertToWatchEvent``.
        """
        before, now = record.uid in self._seen, self.holds(record)
        if change is Change.DELETED or not now:
            self._seen.discard(record.uid)
            return Change.DELETED if before or now else None
        self._seen.add(record.uid)
        return change if before else Change.ADDED
