"""The table of all objects that are stored as they are: it is looked up, changed, watched and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from plugbay.documents import Json
from plugbay.objects.metadata import with_version
from plugbay.objects.watch import Broadcast, Change, Listener
from plugbay.printers import v1


class ObjectKey(NamedTuple):
    """The place of an object; ``group`` is empty for the core group, ``namespace`` for a kind without namespaces."""

    group: str
    plural: str
    namespace: str
    name: str

    @property
    def qualified(self) -> str:
        """Its kind with its group, as in messages: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class StoredObject(NamedTuple):
    key: ObjectKey
    value: Json


class ObjectStore(Protocol):
    """Keeps objects."""

    def save_object(self, key: ObjectKey, value: Json | None) -> None:
        """Save a new form of an object; None when it is gone. Never waits."""
        ...

    async def flush(self) -> None:
        """Return when all that was saved so far is durable."""
        ...


class ObjectTable:
    """The objects of all stored kinds, as v1 JSON. No code changes a value in place.

    A change is seen by readers and listeners at once, and its caller goes on when it is on disk. `get` and a change
    that follows it without waiting in between belong together: nothing comes between them.

    Args:
        first_version: the versions of new changes are above it, and above those of stored objects.

    Attributes:
        version: the resource version of the newest change.
    """

    def __init__(self, store: ObjectStore, *, stored: Iterable[StoredObject] = (), first_version: int = 0) -> None:
        self._store = store
        self._by_kind: dict[tuple[str, str], dict[tuple[str, str], Json]] = {}
        self._broadcast = Broadcast[ObjectKey, Json]()
        self.version = first_version
        for key, value in stored:
            self._kind(key.group, key.plural)[key.namespace, key.name] = value
            self.version = max(self.version, _version(value))

    def get(self, key: ObjectKey) -> Json | None:
        return self._kind(key.group, key.plural).get((key.namespace, key.name))

    def of(self, group: str, plural: str) -> list[Json]:
        """All objects of a kind, in the order of namespace and name."""
        return [value for _, value in sorted(self._kind(group, plural).items(), key=lambda each: each[0])]

    def keys(self) -> Iterator[ObjectKey]:
        """The places of all objects."""
        for (group, plural), objects in list(self._by_kind.items()):
            for namespace, name in list(objects):
                yield ObjectKey(group, plural, namespace, name)

    def next_version(self) -> int:
        """A version for a change elsewhere that has to be told from all others."""
        self.version += 1
        return self.version

    async def create(self, key: ObjectKey, value: Json) -> Json:
        """Take in a new object; what is returned has its resource version.

        Raises:
            StoreUnusable: it is not on disk yet; it is tried again.
        """
        if self.get(key) is not None:
            raise ValueError(f"{key} is there already")
        made = self._put(Change.ADDED, key, value)
        await self._store.flush()
        return made

    async def replace(self, key: ObjectKey, value: Json) -> Json:
        """Take in a new state of an object; an equal one changes nothing.

        Raises:
            KeyError: there is none.
            StoreUnusable: as `create`.
        """
        before = self._kind(key.group, key.plural)[key.namespace, key.name]
        if before != with_version(value, _version(before)):
            before = self._put(Change.MODIFIED, key, value)
        await self._store.flush()
        return before

    async def remove(self, key: ObjectKey) -> Json:
        """Forget an object; what is returned is its last state, with the version of its end.

        Raises:
            KeyError: there is none.
            StoreUnusable: as `create`.
        """
        self.version += 1
        last = with_version(self._kind(key.group, key.plural).pop((key.namespace, key.name)), self.version)
        self._store.save_object(key, None)
        self._broadcast.send(Change.DELETED, key, last)
        await self._store.flush()
        return last

    def attach(self, listener: Listener[ObjectKey, Json]) -> None:
        """Tell ``listener`` of every change from now on, as long as it is held elsewhere."""
        self._broadcast.attach(listener)

    def _put(self, change: Change, key: ObjectKey, value: Json) -> Json:
        self.version += 1
        value = with_version(value, self.version)
        self._kind(key.group, key.plural)[key.namespace, key.name] = value
        self._store.save_object(key, value)
        self._broadcast.send(change, key, value)
        return value

    def _kind(self, group: str, plural: str) -> dict[tuple[str, str], Json]:
        return self._by_kind.setdefault((group, plural), {})


def _version(value: Json) -> int:
    text = v1.text(value, "metadata", "resourceVersion")
    return int(text) if text.isdecimal() else 0
