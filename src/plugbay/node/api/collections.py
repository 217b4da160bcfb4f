"""The collections of the node's objects, kept in step with the tables that they are made from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, Generic

from plugbay.documents import Json
from plugbay.model.ids import PodUid
from plugbay.node.api.objects import pod_object
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.resources import EVENTS, NEW_EVENTS, NODES, PODS, ApiResource, ResourceTable
from plugbay.objects.event_views import core_event, new_event
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change, Item, Key
from plugbay.ops.clock import Clock
from plugbay.pods.events import Event, event_object
from plugbay.pods.record import PodRecord
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

_MILLISECONDS: Final = 1000

_EventView = Callable[[Json], Json]


def first_version(clock: Clock) -> int:
    """A version for the start of a node, larger than those of earlier runs: there are not 1,000 changes a second."""
    return int(clock.now().timestamp() * _MILLISECONDS)


class Collections:
    """All objects of the node. Those of stored kinds are in each version of their group that is served.

    Args:
        runtime: the scheme of container IDs.
        node: the node as it is now.
    """

    def __init__(
        self,
        pods: PodTable,
        events: EventLog,
        node: Callable[[], Json],
        *,
        resources: ResourceTable,
        objects: ObjectTable,
        runtime: str,
        clock: Clock,
    ) -> None:
        self._node = node
        self._runtime = runtime
        self._clock = clock
        version = first_version(clock)
        self._pods = Collection(pods.version, [self._pod(record) for record in pods])
        stored_events = [each for group in ("", NEW_EVENTS.group) for each in objects.of(group, EVENTS.plural)]
        made = [
            *(partial(_own_event, each) for each in events),
            *(partial(_client_event, each) for each in stored_events),
        ]
        self._events = {
            view: Collection(objects.version, [make(view) for make in made]) for view in (core_event, new_event)
        }
        self._nodes = Collection(version, [self._node_now(version)])
        self._pod_listener = _Listener[PodUid, PodRecord](self._pod_changed)
        pods.attach(self._pod_listener)
        self._event_listener = _Listener[str, Event](self._event_changed)
        events.attach(self._event_listener)
        self._own = {PODS: self._pods, NODES: self._nodes}
        self._own |= {EVENTS: self._events[core_event], NEW_EVENTS: self._events[new_event]}
        self._objects = objects
        self._stored: dict[ApiResource, Collection] = {}
        for resource in resources:
            if resource.stored is not None and resource not in self._own:
                self.serve(resource)
        objects.attach(self)

    def __getitem__(self, resource: ApiResource) -> Collection:
        return self._own.get(resource) or self._stored[resource]

    def serve(self, resource: ApiResource, *, instead_of: ApiResource | None = None) -> None:
        """Follow the objects of a stored kind from now on; watches of the row ``instead_of`` go on as its own."""
        if instead_of is not None:
            self._stored[resource] = self._stored.pop(instead_of)
            return
        present = self._objects.of(resource.group, resource.plural)
        self._stored[resource] = Collection(self._objects.version, [_stored(resource, each) for each in present])

    def drop(self, resource: ApiResource) -> None:
        """Follow the objects of a kind no longer; watches of it end."""
        self._stored.pop(resource).close()

    def put(self, change: Change, key: ObjectKey, value: Json) -> None:
        """Take in a change of a stored object; the table of objects tells of it."""
        if key.plural == EVENTS.plural and key.group in (EVENTS.group, NEW_EVENTS.group):
            self._put_event(change, partial(_client_event, value))
        for resource, collection in self._stored.items():
            if (resource.group, resource.plural) == (key.group, key.plural):
                if change is Change.DELETED:
                    collection.remove(_stored(resource, value))
                else:
                    collection.put(_stored(resource, value))

    async def follow_node(self, changes: AsyncIterator[None]) -> None:
        """Keep the node in step, until cancelled."""
        async for _ in changes:
            self.look_at_node()

    def look_at_node(self) -> ApiItem:
        """Take in the node as it is now."""
        [before] = self._nodes.all()
        now = self._node_now(self._nodes.version + 1)
        if _without_version(now.value) == _without_version(before.value):
            return before
        self._nodes.put(now)
        return now

    def _pod_changed(self, change: Change, record: PodRecord) -> None:
        item = self._pod(record)
        if change is Change.DELETED:
            self._pods.remove(item)
        else:
            self._pods.put(item)

    def _event_changed(self, change: Change, event: Event) -> None:
        self._put_event(change, partial(_own_event, event))

    def _put_event(self, change: Change, make: Callable[[_EventView], ApiItem]) -> None:
        for view, collection in self._events.items():
            if change is Change.DELETED:
                collection.remove(make(view))
            else:
                collection.put(make(view))

    def _pod(self, record: PodRecord) -> ApiItem:
        make = partial(pod_object, record, runtime=self._runtime)
        return ApiItem(record.pod.namespace, record.pod.name, record.version, make)

    def _node_now(self, version: int) -> ApiItem:
        node = self._node()
        return ApiItem("", v1.name(node), version, lambda: node)


def _without_version(node: Json) -> Json:
    return node | {"metadata": v1.mapping(node, "metadata") | {"resourceVersion": ""}}


def _own_event(event: Event, view: _EventView) -> ApiItem:
    """An event of the node's own log."""
    return ApiItem(event.namespace, event.name, event.serial, lambda: view(event_object(event)))


def _client_event(value: Json, view: _EventView) -> ApiItem:
    """An event that a client has written."""
    stored = ApiItem.of(value)
    return ApiItem(stored.namespace, stored.name, stored.version, lambda: view(value))


def _stored(resource: ApiResource, value: Json) -> ApiItem:
    """A stored object in one of the versions of its group."""
    return ApiItem.of(value | {"apiVersion": resource.api_version})


class _Listener(Generic[Key, Item]):
    """Hands changes on, without their keys. It has to be held as long as changes are to be told."""

    def __init__(self, told: Callable[[Change, Item], None]) -> None:
        self._told = told

    def put(self, change: Change, key: Key, item: Item) -> None:
        self._told(change, item)
