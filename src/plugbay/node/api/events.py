"""Events: listed and watched."""

from __future__ import annotations

from collections.abc import Callable

from plugbay.node.api.watches import is_watch, watch_response
from plugbay.node.events import Event, EventLog, event_object
from plugbay.node.objects import list_object
from plugbay.ops.routing import Request, Response, StreamResponse, json_response


class EventRoutes:
    def __init__(self, events: EventLog) -> None:
        self._events = events

    async def list(self, request: Request) -> Response | StreamResponse:
        wanted = _filter(request)
        if is_watch(request):
            return watch_response(
                self._events.watch(), seen=lambda change, event: change if wanted(event) else None, shown=event_object
            )
        items = [event_object(event) for event in self._events if wanted(event)]
        return json_response(list_object("EventList", items))


def _filter(request: Request) -> Callable[[Event], bool]:
    namespace = request.params.get("namespace")
    name = request.query.get("involvedObject")
    return lambda event: namespace in (None, event.namespace) and name in (None, event.about.name)
