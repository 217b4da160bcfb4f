"""The objects that a list or a watch is about, as its address says. Pure."""

from __future__ import annotations

from plugbay.model.selectors import parse_selector, selects
from plugbay.node.api.field_selectors import FieldSelector
from plugbay.node.api.reading.items import ApiItem, ChangedItem
from plugbay.node.api.resources import ApiResource
from plugbay.objects.watch import Change
from plugbay.ops.routing import Request


class ItemSelection:
    """The objects of a namespace, or of all, that ``labelSelector`` and ``fieldSelector`` select.

    Raises:
        UsageError: one of them is not a selector.
    """

    def __init__(self, request: Request, resource: ApiResource) -> None:
        self._namespace = request.params.get("namespace") if resource.is_namespaced else None
        self._fields = FieldSelector(request.query.get("fieldSelector", ""), resource.fields)
        self._labels = parse_selector(request.query.get("labelSelector", ""))

    def holds(self, item: ApiItem | None) -> bool:
        return (
            item is not None
            and self._namespace in (None, item.namespace)
            and (not self._labels or selects(self._labels, item.labels))
            and (not self._fields or self._fields.holds(item.value))
        )

    def seen(self, changed: ChangedItem) -> tuple[Change, ApiItem] | None:
        """A change as a watch of these objects has it; None when it is not about any of them.

        To such a watch an object is added when it comes to be as asked for; when it no longer is, it is deleted, in its
        state of before.

        Source: apiserver 1.36 ``pkg/storage/cacher/cache_watcher.go``, ``convertToWatchEvent``.
        """
        before = self.holds(changed.before)
        now = changed.change is not Change.DELETED and self.holds(changed.item)
        match before, now:
            case False, False:
                return None
            case False, True:
                return Change.ADDED, changed.item
            case True, True:
                return Change.MODIFIED, changed.item
            case _:
                return Change.DELETED, changed.left
