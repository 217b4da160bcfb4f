"""Events: what happened to which object, repetitions counted, the oldest forgotten."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final, Protocol

from plugbay.errors.wording import clipped
from plugbay.model.ids import ContainerName
from plugbay.model.pods import DEFAULT_NAMESPACE, Pod
from plugbay.node.broadcast import Broadcast, Change, Subscription
from plugbay.node.status import Json, timestamp
from plugbay.ops.clock import Clock

MAX_EVENTS: Final = 1000
MAX_MESSAGE: Final = 1024
"""What an API server takes of the note of an event."""
KUBELET: Final = "kubelet"
SCHEDULER: Final = "default-scheduler"


class EventType(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """What an event is about; ``field_path`` names a container, such as ``spec.containers{app}``."""

    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """``name`` is unique on the node.

    Attributes:
        serial: grows with each record of any event; times do not tell what came later, for clocks are set back.
    """

    name: str
    about: ObjectRef
    type: EventType
    reason: str
    message: str
    component: str
    count: int
    first_at: datetime
    last_at: datetime
    serial: int = 0

    @property
    def namespace(self) -> str:
        """Where it is listed; events of the node itself stand in the default namespace, as a kubelet puts them."""
        return self.about.namespace or DEFAULT_NAMESPACE


EventKey = tuple[ObjectRef, EventType, str, str]


class EventSink(Protocol):
    """Where events are kept."""

    def save_event(self, event: Event) -> None: ...

    def delete_event(self, name: str) -> None: ...


class EventLog:
    """The newest events of the node, oldest first."""

    def __init__(self, sink: EventSink, clock: Clock, *, stored: Iterable[Event] = ()) -> None:
        self._sink = sink
        self._clock = clock
        self._events = {_key(each): each for each in sorted(stored, key=lambda each: (each.serial, each.last_at))}
        self._serial = max((each.serial for each in self), default=0)
        self._broadcast = Broadcast[str, Event]()

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events.values())

    def normal(self, about: ObjectRef, reason: str, message: str, *, component: str = KUBELET) -> None:
        self.record(about, EventType.NORMAL, reason, message, component=component)

    def warning(self, about: ObjectRef, reason: str, message: str, *, component: str = KUBELET) -> None:
        self.record(about, EventType.WARNING, reason, message, component=component)

    def watch(self) -> Subscription[str, Event]:
        """Changes from now on, the events there are first."""
        return self._broadcast.subscribe((event.name, event) for event in self)

    def record(self, about: ObjectRef, kind: EventType, reason: str, message: str, *, component: str = KUBELET) -> None:
        message = clipped(message, MAX_MESSAGE)
        now = self._clock.now()
        self._serial += 1
        before = self._events.pop((about, kind, reason, message), None)
        if before is not None:
            event = replace(before, count=before.count + 1, last_at=now, serial=self._serial)
            change = Change.MODIFIED
        else:
            name = f"{about.name}.{secrets.token_hex(8)}"
            event = Event(name, about, kind, reason, message, component, 1, now, now, self._serial)
            change = Change.ADDED
            self._make_room()
        self._events[_key(event)] = event
        self._sink.save_event(event)
        self._broadcast.send(change, event.name, event)

    def is_known(self, about: ObjectRef, kind: EventType, reason: str, message: str) -> bool:
        """Whether such an event would only be counted."""
        return (about, kind, reason, message) in self._events

    def _make_room(self) -> None:
        while len(self._events) >= MAX_EVENTS:
            oldest = self._events.pop(next(iter(self._events)))
            self._sink.delete_event(oldest.name)
            self._broadcast.send(Change.DELETED, oldest.name, oldest)


def _key(event: Event) -> EventKey:
    return event.about, event.type, event.reason, event.message


def pod_ref(pod: Pod, container: ContainerName | None = None) -> ObjectRef:
    """``pod``, or one container of it."""
    if container is None:
        return ObjectRef("Pod", pod.namespace, pod.name, pod.uid)
    is_init = any(each.name == container for each in pod.spec.init_containers)
    where = "initContainers" if is_init else "containers"
    return ObjectRef("Pod", pod.namespace, pod.name, pod.uid, f"spec.{where}{{{container}}}")


def event_object(event: Event) -> Json:
    """The v1 Event."""
    about = event.about
    involved: Json = {
        "apiVersion": "v1",
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    if about.field_path:
        involved["fieldPath"] = about.field_path
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": event.name,
            "namespace": event.namespace,
            "creationTimestamp": timestamp(event.first_at),
        },
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message,
        "type": event.type.value,
        "count": event.count,
        "firstTimestamp": timestamp(event.first_at),
        "lastTimestamp": timestamp(event.last_at),
        "source": {"component": event.component},
    }
