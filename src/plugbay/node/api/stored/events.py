"""Events end: clients delete them, and an hour after their last change they go by themselves.

Source: Kubernetes 1.36 ``cmd/kube-apiserver/app/options`` (EventTTL), ``pkg/registry/core/event/strategy.go``.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from plugbay.documents import Json
from plugbay.errors import StoreUnusable
from plugbay.node.api.refusals import not_found
from plugbay.node.api.resources import EVENTS, NEW_EVENTS, ApiResource
from plugbay.node.api.stored.writing import DeletedObject
from plugbay.node.api.writing.delete_options import DeleteOptions
from plugbay.objects.event_views import core_event, new_event
from plugbay.objects.metadata import with_version
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.clock import Clock
from plugbay.pods.events import event_object
from plugbay.pods.store.event_log import EventLog
from plugbay.printers import v1

logger = logging.getLogger(__name__)

LIFETIME_S: Final = 3600
_LEAST_PAUSE_S: Final = 60.0
"""An event may stay so much longer, so that many that end one after the other are let go together."""


class EventEnds:
    """Ends events, those of the node's own log and those that clients have recorded."""

    def __init__(self, log: EventLog, objects: ObjectTable, clock: Clock) -> None:
        self._log = log
        self._objects = objects
        self._clock = clock

    async def run(self) -> None:
        """Let events go when they are old enough, until cancelled."""
        while True:
            pause_s = _LEAST_PAUSE_S
            try:
                pause_s = max(await self._sweep(), _LEAST_PAUSE_S)
            except StoreUnusable as error:
                logger.warning("old events cannot be forgotten: %s", error)
            await self._clock.sleep(pause_s)

    async def delete(self, resource: ApiResource, namespace: str, name: str, options: DeleteOptions) -> DeletedObject:
        """Delete an event, in whichever group it was recorded; what is returned is of the kind ``resource``.

        Raises:
            HttpError: 404 or 409, there is none, or another one is meant.
            StoreUnusable: it may come back.
        """
        view = core_event if resource == EVENTS else new_event
        logged = next((each for each in self._log if (each.namespace, each.name) == (namespace, name)), None)
        if logged is not None:
            value = with_version(event_object(logged), logged.serial)
            options.check(resource, value)
            if not options.is_rehearsal:
                await self._log.remove(logged)
            return DeletedObject(view(value), is_gone=True)
        for group in (EVENTS.group, NEW_EVENTS.group):
            key = ObjectKey(group, EVENTS.plural, namespace, name)
            if (found := self._objects.get(key)) is not None:
                options.check(resource, found)
                last = found if options.is_rehearsal else await self._objects.remove(key)
                return DeletedObject(view(last), is_gone=True)
        raise not_found(resource, name)

    async def leave(self, namespace: str) -> None:
        """Forget the events of the node's own log that are in a namespace.

        Raises:
            StoreUnusable: they may come back.
        """
        for event in [each for each in self._log if each.namespace == namespace]:
            await self._log.remove(event)

    async def _sweep(self) -> float:
        """Let events go that are old enough; returns the seconds until the next one is. Later events end later."""
        oldest = self._clock.now()
        end = oldest - timedelta(seconds=LIFETIME_S)
        for event in tuple(self._log):
            if event.last_at < end:
                await self._log.remove(event)
            else:
                oldest = min(oldest, event.last_at)
        for group in (EVENTS.group, NEW_EVENTS.group):
            for value in self._objects.of(group, EVENTS.plural):
                changed = _last_moment(value)
                if changed is not None and changed < end:
                    with suppress(KeyError):  # it has gone meanwhile
                        await self._objects.remove(ObjectKey(group, EVENTS.plural, v1.namespace(value), v1.name(value)))
                elif changed is not None:
                    oldest = min(oldest, changed)
        return (oldest - end).total_seconds()


def _last_moment(value: Json) -> datetime | None:
    """The time of the last write, by our clock: clients say what they like in their own fields."""
    made = v1.moment(value, "metadata", "creationTimestamp")
    writes = (v1.moment(each, "time") for each in v1.objects(v1.mapping(value, "metadata"), "managedFields"))
    return max((each for each in (made, *writes) if each is not None), default=None)
