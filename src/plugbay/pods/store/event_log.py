"""The events of the node: repetitions are counted, the oldest are forgotten."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from plugbay.errors.wording import clipped
from plugbay.objects.watch import Broadcast, Change, Listener, Subscription
from plugbay.ops.clock import Clock
from plugbay.pods.events import KUBELET, Event, EventType, ObjectRef
from plugbay.pods.store.database import PodStore

MAX_EVENTS: Final = 1000
MAX_MESSAGE: Final = 1024
"""An API server takes a note of an event up to this length."""

EventKey = tuple[ObjectRef, EventType, str, str]


class EventLog:
    """The newest events of the node, oldest first.

    Args:
        next_serial: gives the serial of a new event, above all that it gave before; None where no other changes share
            the serials.
    """

    def __init__(
        self,
        store: PodStore,
        clock: Clock,
        *,
        stored: Iterable[Event] = (),
        next_serial: Callable[[], int] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._events = {_key(each): each for each in sorted(stored, key=lambda each: (each.serial, each.last_at))}
        self._serial = max((each.serial for each in self), default=0)
        self._next_serial = next_serial or (lambda: self._serial + 1)
        self._broadcast = Broadcast[str, Event]()

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events.values())

    def normal(self, about: ObjectRef, reason: str, message: str, *, component: str = KUBELET) -> None:
        self.record(about, EventType.NORMAL, reason, message, component=component)

    def warning(self, about: ObjectRef, reason: str, message: str, *, component: str = KUBELET) -> None:
        self.record(about, EventType.WARNING, reason, message, component=component)

    def watch(self) -> Subscription[str, Event]:
        """Changes from now on, after the events that are there."""
        return self._broadcast.subscribe((event.name, event) for event in self)

    def attach(self, listener: Listener[str, Event]) -> None:
        """Tell ``listener`` of every change from now on, as long as it is held elsewhere."""
        self._broadcast.attach(listener)

    @property
    def version(self) -> int:
        """The serial of the newest change."""
        return self._serial

    def record(self, about: ObjectRef, kind: EventType, reason: str, message: str, *, component: str = KUBELET) -> None:
        message = clipped(message, MAX_MESSAGE)
        now = self._clock.now()
        before = self._events.pop((about, kind, reason, message), None)
        if before is None:
            self._make_room()
        self._serial = self._next_serial()
        if before is not None:
            event = replace(before, count=before.count + 1, last_at=now, serial=self._serial)
            change = Change.MODIFIED
        else:
            name = f"{about.name}.{secrets.token_hex(8)}"
            event = Event(name, about, kind, reason, message, component, 1, now, now, self._serial)
            change = Change.ADDED
        self._events[_key(event)] = event
        self._store.save_event(event)
        self._broadcast.send(change, event.name, event)

    async def remove(self, event: Event) -> None:
        """Forget an event, unless it has gone already.

        Raises:
            StoreUnusable: it may come back.
        """
        if self._events.get(_key(event)) is not None:
            self._forget(self._events.pop(_key(event)))
        await self._store.flush()

    def is_known(self, about: ObjectRef, kind: EventType, reason: str, message: str) -> bool:
        """Whether such an event would only be counted."""
        return (about, kind, reason, message) in self._events

    def _make_room(self) -> None:
        while len(self._events) >= MAX_EVENTS:
            self._forget(self._events.pop(next(iter(self._events))))

    def _forget(self, event: Event) -> None:
        self._store.delete_event(event.name)
        self._serial = self._next_serial()
        self._broadcast.send(Change.DELETED, event.name, replace(event, serial=self._serial))


def _key(event: Event) -> EventKey:
    return event.about, event.type, event.reason, event.message
