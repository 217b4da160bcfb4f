"""The routes by which clients find out what there is; the answers follow the table of kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from plugbay.documents import Json
from plugbay.node.api import parameters
from plugbay.node.api.discovery.lists import (
    group_object,
    groups_response,
    paths_object,
    resource_list,
    version_object,
    versions_response,
)
from plugbay.node.api.parameters import check_parameters
from plugbay.node.api.reading.compression import compressed
from plugbay.node.api.reading.yaml_answers import in_wanted_format
from plugbay.node.api.refusals import no_such_resource
from plugbay.node.api.resources import ResourceTable
from plugbay.ops.routing import JSON, Answer, Handler, HttpError, Request, Response, Router, json_response

_GNOSTIC: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_FORMS: Final = {
    JSON: JSON,
    "application/*": JSON,
    "*/*": JSON,
    _GNOSTIC: _GNOSTIC,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _GNOSTIC,
}
"""The forms of the one document by the names that clients have for them; the last is none that they read."""


class DiscoveryRoutes:
    """Answers requests for versions, groups, kinds and their fields.

    Args:
        version: plugbay's.
    """

    def __init__(self, resources: ResourceTable, version: str) -> None:
        self._resources = resources
        self._version = version
        self._made: dict[str, tuple[int, Response]] = {}
        """The documents of OpenAPI by path or form, each with the version of the table that it is made of."""

    def add_to(self, router: Router) -> None:
        router.add("GET", "/openapi/v2", self._swagger)
        for template, answer in (
            ("/", lambda request: json_response(paths_object(self._resources))),
            ("/version", lambda request: json_response(version_object(self._version))),
            ("/api", lambda request: versions_response(self._resources, request)),
            ("/apis", lambda request: groups_response(self._resources, request)),
            ("/api/{version}", self._kinds),
            ("/apis/{group}", self._group),
            ("/apis/{group}/{version}", self._kinds),
            ("/openapi/v3", self._index),
            ("/openapi/v3/api/{version}", self._fields),
            ("/openapi/v3/apis/{group}/{version}", self._fields),
        ):
            router.add("GET", template, _handler(answer))

    async def _swagger(self, request: Request) -> Answer:
        """All fields in one document, in the first form of those that the client takes."""
        check_parameters(request, parameters.DISCOVERY)
        named = [each.partition(";")[0].strip() for each in (request.headers.get("accept") or JSON).split(",")]
        form = next((_FORMS[each] for each in named if each in _FORMS), "")
        if not form:
            problem = f"only the following media types are accepted: {JSON}, {_GNOSTIC}"
            raise HttpError(406, "NotAcceptable", problem, details={})
        version, made = self._made.get(form, (-1, Response()))
        if version != self._resources.version:
            version = self._resources.version
            made = await asyncio.to_thread(_swagger_response, self._resources, form)
            self._made[form] = version, made
        return await compressed(request, made)

    def _group(self, request: Request) -> Response:
        name = request.params["group"]
        if not self._resources.of_group(name):
            raise no_such_resource()
        return json_response({"kind": "APIGroup", "apiVersion": "v1", **group_object(self._resources, name)})

    def _kinds(self, request: Request) -> Response:
        return json_response(resource_list(self._resources, self._served(request)))

    def _index(self, request: Request) -> Response:
        from plugbay.node.api.discovery.openapi import openapi_index  # the documents' modules: few clients ask for any

        return self._document(request, lambda: openapi_index(self._resources))

    def _fields(self, request: Request) -> Response:
        from plugbay.node.api.discovery.openapi import openapi_document

        api_version = self._served(request)
        base = f"/apis/{api_version}" if "group" in request.params else f"/api/{api_version}"
        return self._document(request, lambda: openapi_document(self._resources, base))

    def _served(self, request: Request) -> str:
        """The version of a group that a request is about."""
        group, version = request.params.get("group", ""), request.params["version"]
        if not any(each.version == version for each in self._resources.of_group(group)):
            raise no_such_resource()
        return f"{group}/{version}" if group else version

    def _document(self, request: Request, make: Callable[[], Json]) -> Response:
        """Make an answer when it is first asked for: it takes milliseconds, and few clients ask."""
        version, made = self._made.get(request.path, (-1, Response()))
        if version != self._resources.version:
            version, made = self._made[request.path] = self._resources.version, json_response(make())
        return made


def _swagger_response(resources: ResourceTable, form: str) -> Response:
    """This takes tenths of a second."""
    from plugbay.node.api.discovery.gnostic import gnostic_document
    from plugbay.node.api.discovery.swagger import swagger_document

    document = swagger_document(resources)
    return json_response(document) if form == JSON else Response(200, gnostic_document(document), form)


def _handler(answer: Callable[[Request], Response]) -> Handler:
    async def handler(request: Request) -> Answer:
        check_parameters(request, parameters.DISCOVERY)
        return await compressed(request, await in_wanted_format(request, answer(request)))

    return handler
