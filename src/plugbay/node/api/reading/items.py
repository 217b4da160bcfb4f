"""One state of one object, which is turned into JSON once, however many clients look at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property

from plugbay.documents import Json
from plugbay.objects.watch import Change
from plugbay.printers import v1


class ApiItem:
    """A state of an object.

    Args:
        version: its resource version.
        make: makes its JSON; it is called when that is first looked at.
        weight: the characters that this state alone keeps in memory; states of a pod share what is large.
    """

    def __init__(self, namespace: str, name: str, version: int, make: Callable[[], Json], *, weight: int = 0) -> None:
        self.namespace = namespace
        self.name = name
        self.version = version
        self.weight = weight
        self._make = make

    @classmethod
    def of(cls, value: Json) -> ApiItem:
        """A stored object."""
        version = v1.text(value, "metadata", "resourceVersion")
        return cls(v1.namespace(value), v1.name(value), int(version or 0), lambda: value, weight=_weight(value))

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: the order in which lists have objects."""
        return self.namespace, self.name

    @cached_property
    def value(self) -> Json:
        """The object; its resource version is this state's."""
        value = self._make()
        return value | {"metadata": v1.mapping(value, "metadata") | {"resourceVersion": str(self.version)}}

    @cached_property
    def encoded(self) -> bytes:
        return json.dumps(self.value).encode()

    def line(self, kind: str) -> tuple[bytes, ...]:
        """The line of a watch that tells of this state, in pieces: the large one is the same for all watches.

        Args:
            kind: ``ADDED``, ``MODIFIED`` or ``DELETED``.
        """
        return b'{"type": "%s", "object": ' % kind.encode(), self.encoded, b"}\n"

    @property
    def labels(self) -> Mapping[str, str]:
        labels = v1.mapping(self.value, "metadata", "labels")
        return {name: text for name, text in labels.items() if isinstance(text, str)}


class ChangedItem:
    """A change of an object.

    Args:
        item: the state after it; of a deleted object, its last one with the version of its end.
        before: the state before it; None for a new object.

    Attributes:
        version: of the whole collection after it.
    """

    def __init__(self, version: int, change: Change, item: ApiItem, before: ApiItem | None) -> None:
        self.version = version
        self.change = change
        self.item = item
        self.before = before

    @cached_property
    def left(self) -> ApiItem:
        """The state in which the object leaves a watch that selects it no longer, with the version of the change."""
        last = self.before
        if last is None or self.change is Change.DELETED:
            return self.item
        return ApiItem(last.namespace, last.name, self.version, lambda: last.value)


def _weight(value: object) -> int:
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(name) + _weight(each) for name, each in value.items())
        case list():
            return sum(map(_weight, value))
        case _:
            return 1
