"""Which pods a list or a watch is about, as its address says."""

from __future__ import annotations

from plugbay.model.ids import PodUid
from plugbay.model.selectors import parse_selector, selects
from plugbay.node.broadcast import Change
from plugbay.node.records import PodRecord
from plugbay.ops.routing import Request


class PodSelection:
    """The pods of a namespace, or of all, that ``labelSelector`` selects.

    Raises:
        UsageError: it is no selector.
    """

    def __init__(self, request: Request) -> None:
        self._namespace = request.params.get("namespace")
        self._selector = parse_selector(request.query.get("labelSelector", ""))
        self._seen: set[PodUid] = set()

    def holds(self, record: PodRecord) -> bool:
        return self._namespace in (None, record.pod.namespace) and selects(self._selector, record.pod.labels)

    def seen(self, change: Change, record: PodRecord) -> Change | None:
        """``change`` as a watch of these pods has it; None when it is not about any of them.

        To such a watch a pod is added when its labels come to be as asked for, and deleted when they are no more.

        Source: apiserver 1.36 ``pkg/storage/cacher/cache_watcher.go``, ``convertToWatchEvent``.
        """
        before, now = record.uid in self._seen, self.holds(record)
        if change is Change.DELETED or not now:
            self._seen.discard(record.uid)
            return Change.DELETED if before or now else None
        self._seen.add(record.uid)
        return change if before else Change.ADDED
