"""Watching a set of objects; v1 watches are made from it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Key_contra = TypeVar("Key_contra", contravariant=True)
Item_contra = TypeVar("Item_contra", contravariant=True)


class Change(Enum):
    """v1's watch event types."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Subscription(Generic[Key, Item]):
    """The changes that one reader has not seen yet: only the newest of each object, so that a slow reader is cheap.

    The end of an object that was deleted and made again with the same key, as static pods are, is kept too: a reader
    may wait for it.
    """

    def __init__(self) -> None:
        self._unseen: dict[Key, tuple[Change, Item]] = {}
        self._ended: dict[Key, Item] = {}
        """The last states of objects that were made again since."""
        self._filled = asyncio.Event()

    def put(self, change: Change, key: Key, item: Item) -> None:
        before = self._unseen.get(key)
        if change is Change.DELETED:
            self._ended.pop(key, None)
        elif before is not None and before[0] is Change.ADDED:
            change = Change.ADDED
        elif before is not None and before[0] is Change.DELETED:
            self._ended[key] = before[1]
        self._unseen[key] = (change, item)
        self._filled.set()

    async def next(self) -> list[tuple[Change, Item]]:
        """All unseen changes, as soon as there is one."""
        await self._filled.wait()
        self._filled.clear()
        changes = [(Change.DELETED, item) for item in self._ended.values()] + list(self._unseen.values())
        self._ended.clear()
        self._unseen.clear()
        return changes


class Listener(Protocol[Key_contra, Item_contra]):
    """Is told of every change when it happens."""

    def put(self, change: Change, key: Key_contra, item: Item_contra) -> None: ...


class Broadcast(Generic[Key, Item]):
    """Hands every change to every listener, such as a subscription. A listener ends when its reader drops it."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[Listener[Key, Item]] = weakref.WeakSet()

    def attach(self, listener: Listener[Key, Item]) -> None:
        """Tell ``listener`` of every change from now on."""
        self._listeners.add(listener)

    def subscribe(self, existing: Iterable[tuple[Key, Item]]) -> Subscription[Key, Item]:
        """A subscription that sees ``existing`` objects as added first, and misses no change from now on."""
        subscription = Subscription[Key, Item]()
        for key, item in existing:
            subscription.put(Change.ADDED, key, item)
        self.attach(subscription)
        return subscription

    def send(self, change: Change, key: Key, item: Item) -> None:
        for listener in self._listeners:
            listener.put(change, key, item)
