"""Events: listed and watched."""

from __future__ import annotations

from collections.abc import Callable

from plugbay.model.selectors import parse_selector, selects
from plugbay.node.api.field_selectors import EVENT_FIELDS, FieldSelector
from plugbay.node.api.objects import list_object
from plugbay.node.api.parameters import is_set
from plugbay.node.api.watches import check_unversioned, watch_response
from plugbay.ops.routing import Request, Response, StreamResponse, json_response
from plugbay.pods.events import Event, event_object
from plugbay.pods.store.event_log import EventLog


class EventRoutes:
    def __init__(self, events: EventLog) -> None:
        self._events = events

    async def list(self, request: Request) -> Response | StreamResponse:
        wanted = _filter(request)
        if is_set(request, "watch"):
            check_unversioned(request)
            return watch_response(
                self._events.watch(),
                request,
                seen=lambda change, event: change if wanted(event) else None,
                shown=event_object,
            )
        items = [event_object(event) for event in self._events if wanted(event)]
        return json_response(list_object("EventList", items))


def _filter(request: Request) -> Callable[[Event], bool]:
    namespace = request.params.get("namespace")
    name = request.query.get("involvedObject")
    fields = FieldSelector(request.query.get("fieldSelector", ""), EVENT_FIELDS)
    selects_without_labels = selects(parse_selector(request.query.get("labelSelector", "")), {})  # events have none

    def is_wanted(event: Event) -> bool:
        return (
            selects_without_labels
            and namespace in (None, event.namespace)
            and name in (None, event.about.name)
            and (not fields or fields.holds(event_object(event)))
        )

    return is_wanted
