"""Getting, listing and watching: the same for every kind of objects."""

from __future__ import annotations

from plugbay.node.api.parameters import is_set
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.listing import check_options, list_response, object_response
from plugbay.node.api.reading.watching import watch_response
from plugbay.node.api.refusals import not_found
from plugbay.node.api.resources import ApiResource
from plugbay.ops.clock import Clock
from plugbay.ops.routing import Answer, Request


class ReadRoutes:
    """Answers requests for the objects of one kind."""

    def __init__(self, resource: ApiResource, collection: Collection, clock: Clock) -> None:
        self._resource = resource
        self._collection = collection
        self._clock = clock

    async def list(self, request: Request) -> Answer:
        """Answer a list, or with ``watch=true`` a watch."""
        check_options(request)
        if is_set(request, "watch"):
            return watch_response(self._collection, self._resource, request, self._clock.now)
        return list_response(self._collection, self._resource, request, self._clock.now())

    async def get(self, request: Request) -> Answer:
        return object_response(self._resource, self._named(request), request, self._clock.now())

    def _named(self, request: Request) -> ApiItem:
        name = request.params["name"]
        item = self._collection.get(request.params.get("namespace", ""), name)
        if item is None:
            raise not_found(self._resource, name)
        return item
