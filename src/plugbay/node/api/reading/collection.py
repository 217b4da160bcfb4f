"""All objects of a kind, and their last changes, for lists and for watches that begin in the past."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from itertools import accumulate
from typing import Final

from plugbay.node.api.reading.items import ApiItem, ChangedItem
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.ops.routing import HttpError

KEPT: Final = 1000
"""The number of changes that are kept; a watch that begins before them has to list first. An API server keeps them for
some minutes."""
KEPT_CHARACTERS: Final = 16 << 20
"""The most that these changes may hold: of large objects fewer are kept."""
_BATCH_CHARACTERS: Final = 1 << 20
"""The most that the changes may hold that one reader is given at a time, and that a slow one keeps in memory."""


class Collection:
    """The objects of one kind.

    Args:
        version: the version at the start; it has to be larger than any of earlier runs.

    Attributes:
        version: the version of the newest change.
    """

    def __init__(self, version: int, items: Iterable[ApiItem] = (), *, kept: int = KEPT) -> None:
        self.version = version
        self._items = {item.key: item for item in items}
        self._kept = kept
        self._changed: deque[ChangedItem] = deque()
        self._weight = 0
        self._forgotten = version
        """The version of the newest change that is not kept."""
        self._moved = Changes()
        self._is_served = True

    def all(self) -> list[ApiItem]:
        """The objects in the order of namespace and name."""
        return [item for _, item in sorted(self._items.items())]

    def at(self, version: int) -> list[ApiItem] | None:
        """The objects as they were at ``version``, in the same order; None when changes since are not kept."""
        if not self._forgotten <= version <= self.version:
            return None
        items = dict(self._items)
        for changed in reversed(self._changed):
            if changed.version <= version:
                break
            if changed.before is None:
                del items[changed.item.key]
            else:
                items[changed.item.key] = changed.before
        return [item for _, item in sorted(items.items())]

    def get(self, namespace: str, name: str) -> ApiItem | None:
        return self._items.get((namespace, name))

    def put(self, item: ApiItem) -> None:
        """Take in a new object, or the new state of a known one."""
        before = self._items.get(item.key)
        self._items[item.key] = item
        self._record(Change.ADDED if before is None else Change.MODIFIED, item, before)

    def remove(self, last: ApiItem) -> None:
        """Forget an object; its last state has the version of its end."""
        self._record(Change.DELETED, last, self._items.pop(last.key, last))

    def close(self) -> None:
        """End all watches: the kind is served no longer."""
        self._is_served = False
        self._moved.notify()

    def check_known(self, version: int) -> None:
        """Check that a watch can begin after ``version``.

        Raises:
            HttpError: 410, changes since are not kept, or no version of ours is so new.
        """
        if version > self.version:
            raise expired(f"too large resource version: {version}, current: {self.version}")
        if version < self._forgotten:
            raise expired(f"too old resource version: {version} ({self._forgotten})")

    async def changes(self, version: int) -> AsyncIterator[list[ChangedItem]]:
        """The changes after ``version``, as they come, some at a time; they end with the kind.

        A slow reader keeps no more of them than it was given last.

        Raises:
            HttpError: 410, the reader has been so slow that changes it has not seen are no longer kept.
        """
        async for _ in self._moved:
            while unseen := self._after(version):
                version = unseen[-1].version
                yield unseen
            if not self._is_served:
                return

    def _after(self, version: int) -> list[ChangedItem]:
        """The next changes after ``version``; not all of them if they are large.

        Raises:
            HttpError: 410, they are no longer kept.
        """
        if version < self._forgotten:
            raise expired(f"too old resource version: {version} ({self._forgotten})")
        unseen = []
        for changed in reversed(self._changed):
            if changed.version <= version:
                break
            unseen.append(changed)
        weights = accumulate(changed.item.weight for changed in reversed(unseen))
        fitting = sum(1 for weight in weights if weight <= _BATCH_CHARACTERS)
        return unseen[::-1][: max(fitting, 1)]

    def _record(self, change: Change, item: ApiItem, before: ApiItem | None) -> None:
        self.version = item.version
        self._changed.append(ChangedItem(item.version, change, item, before))
        self._weight += item.weight
        while len(self._changed) > self._kept or (self._weight > KEPT_CHARACTERS and len(self._changed) > 1):
            oldest = self._changed.popleft()
            self._weight -= oldest.item.weight
            self._forgotten = oldest.version
        self._moved.notify()


def expired(message: str) -> HttpError:
    """The error that has clients list again."""
    return HttpError(410, "Expired", message)
