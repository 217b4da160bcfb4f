"""The node itself: what it says of itself, and what clients write to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plugbay.documents import Json
from plugbay.manager.manager import DeviceManager
from plugbay.model.nodes import NodeInput, well_known_labels
from plugbay.node.api.applying.configurations import apply_configuration, configuration_of
from plugbay.node.api.applying.field_manager import FieldWriter, settled, tracked
from plugbay.node.api.applying.options import is_apply, writer_of
from plugbay.node.api.collections import Collections
from plugbay.node.api.devices import devices_object, rejected_pods
from plugbay.node.api.node_settings import settings_of, status_settings_of
from plugbay.node.api.objects import NodeFacts, Resources, node_object
from plugbay.node.api.parameters import is_rehearsal
from plugbay.node.api.refusals import not_found
from plugbay.node.api.resources import NODES
from plugbay.node.api.writing.bodies import body_of
from plugbay.node.api.writing.delete_options import is_grace
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.preconditions import check_same, check_version
from plugbay.objects import merge_rules
from plugbay.ops.clock import Clock
from plugbay.ops.routing import JSON, HttpError, Request, Response, json_response
from plugbay.ops.slices import joined, json_pieces
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

_KUBELET = FieldWriter("kubelet")
_OWN_CONDITIONS = ("Ready",)


class NodePicture:
    """The node as a v1 object."""

    def __init__(self, node: Node, manager: DeviceManager, facts: NodeFacts) -> None:
        self.node = node
        self._manager = manager
        self._facts = facts

    def object(self, settings: NodeInput | None = None) -> Json:
        """The node as it is now, or as it would be with other settings."""
        counts = self._manager.resources()
        capacity = {name: count.capacity for name, count in counts.items()}
        allocatable = {name: count.allocatable for name, count in counts.items()}
        settings = self.node.settings if settings is None else settings
        return node_object(
            self._facts, Resources(capacity, allocatable), settings=settings, runtime=self.node.runtime_health
        )

    def own(self) -> set[str]:
        """The resources and conditions that the node itself tells of."""
        return {*self.node.machine.capacity, *map(str, self._manager.resources()), *_OWN_CONDITIONS}


class NodeRoutes:
    """The routes of the node itself and of its devices."""

    def __init__(
        self,
        engine: PodEngine,
        view: NodePicture,
        collections: Collections,
        pods: PodTable,
        *,
        manager: DeviceManager,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._view = view
        self._node = view.node
        self._collections = collections
        self._pods = pods
        self._manager = manager
        self._clock = clock

    async def put(self, request: Request) -> Response:
        """Change the node's labels, annotations, taints or cordon; its status stays."""
        value, writer = self._named(request), writer_of(request)
        wanted = _whole(value, request)
        return await self._write(request, wanted, self._settings(value, wanted), writer)

    async def patch(self, request: Request) -> Response:
        """Change the same as a patch says."""
        value, writer = self._named(request), writer_of(request)
        wanted = self._patched(value, request, writer)
        return await self._write(request, wanted, self._settings(value, wanted), writer)

    async def put_status(self, request: Request) -> Response:
        """Change what the node's status tells of extended resources and conditions; its spec stays."""
        value, writer = self._named(request), _of_status(request)
        wanted = _whole(value, request)
        return await self._write(request, wanted, self._status_settings(value, wanted), writer)

    async def patch_status(self, request: Request) -> Response:
        """Change the same as a patch says."""
        value, writer = self._named(request), _of_status(request)
        wanted = self._patched(value, request, writer)
        return await self._write(request, wanted, self._status_settings(value, wanted), writer)

    def _patched(self, value: Json, request: Request, writer: FieldWriter) -> Json:
        if not is_apply(request):
            return patched(value, request, merge_rules.NODE)
        config = configuration_of(request, NODES.kind, NODES.api_version)
        check_version(NODES, value, config)
        if writer.subresource:
            config = {name: each for name, each in config.items() if name in ("apiVersion", "kind", "status")}
        else:
            config = {name: each for name, each in config.items() if name != "status"}
        live = self._with_managers(value)
        return apply_configuration(live, config, request, writer, NODES.applying, now=timestamp(self._clock.now()))

    def _with_managers(self, value: Json) -> Json:
        """The node with its managers; what it had before a client wrote is the kubelet's."""
        if v1.at(value, "metadata", "managedFields"):
            return value
        registered = {name: each for name, each in value.items() if name != "status"}
        owned = tracked(None, registered, _KUBELET, NODES.applying, now=v1.text(value, "metadata", "creationTimestamp"))
        return value | {"metadata": owned["metadata"]}

    def _named(self, request: Request) -> Json:
        if request.params["name"] != self._node.name:
            raise not_found(NODES, request.params["name"])
        return self._object()

    def _settings(self, value: Json, wanted: Json) -> NodeInput:
        check_same(NODES, value, wanted)
        kept = well_known_labels(self._node.name, self._node.machine.architecture)
        return settings_of(value, wanted, self._node.settings, kept, self._clock.now())

    def _status_settings(self, value: Json, wanted: Json) -> NodeInput:
        before = self._settings(value, {**wanted, "spec": value["spec"]})
        return status_settings_of(value, wanted, before, self._view.own())

    async def _write(self, request: Request, wanted: Json, settings: NodeInput, writer: FieldWriter) -> Response:
        settings = replace(settings, managed=self._managed(request, wanted, settings, writer))
        if is_rehearsal(request):
            return json_response(self._view.object(settings))
        await self._engine.write_node(settings)
        return json_response(self._object())

    def _managed(
        self, request: Request, wanted: Json, settings: NodeInput, writer: FieldWriter
    ) -> tuple[Mapping[str, object], ...]:
        """The managers of the node once it has ``settings``, of which ``wanted`` may name some."""
        before, after = self._with_managers(self._object()), self._view.object(settings)
        metadata = v1.mapping(after, "metadata")
        if (entries := v1.at(wanted, "metadata", "managedFields")) is not None:
            metadata = metadata | {"managedFields": entries}
        metadata["resourceVersion"] = v1.text(before, "metadata", "resourceVersion")
        after = after | {"metadata": metadata}
        if not is_apply(request):
            after = tracked(before, after, writer, NODES.applying, now=timestamp(self._clock.now()))
        if settled(before, after) is before:
            return settings.managed
        return tuple(v1.objects(after, "metadata", "managedFields"))

    async def devices(self, request: Request) -> Response:
        devices = devices_object(self._manager, self._pods)
        devices["node"] = self._node.name
        devices["rejections"] = dict(self._engine.admission.rejections)
        devices["rejected"] = rejected_pods(self._pods)
        shown = await joined(json_pieces(devices))
        return Response(body=shown.encode() + b"\n", content_type=JSON)

    async def cordon(self, request: Request) -> Response:
        await self._engine.cordon()
        return json_response(self._object())

    async def drain(self, request: Request) -> Response:
        """The pods are on their way out when this is answered."""
        await self._engine.drain(grace_s=_grace_s(request))
        return json_response(self._object())

    async def uncordon(self, request: Request) -> Response:
        await self._engine.uncordon()
        return json_response(self._object())

    def _object(self) -> Json:
        """The node as it is now, with its resource version."""
        return self._collections.look_at_node().value


def _whole(value: Json, request: Request) -> Json:
    """The node as the body of a PUT has it."""
    wanted = body_of(request)
    if not isinstance(wanted, dict):
        raise HttpError(400, "BadRequest", "the body must be a Node")
    if v1.name(wanted) != v1.name(value):
        problem = f"the name of the object ({v1.name(wanted)}) does not match the name on the URL ({v1.name(value)})"
        raise HttpError(400, "BadRequest", problem)
    metadata = v1.mapping(wanted, "metadata")
    filled = {name: metadata.get(name) or v1.at(value, "metadata", name) for name in ("uid", "creationTimestamp")}
    return {"apiVersion": "v1", "kind": "Node", **wanted, "metadata": {**metadata, **filled}}


def _grace_s(request: Request) -> int | None:
    """``{"gracePeriodSeconds": N}`` or nothing: each pod's own grace period."""
    body = request.json() if request.body else {}
    grace_s = body.get("gracePeriodSeconds") if isinstance(body, dict) else body
    if grace_s is not None and not is_grace(grace_s):
        raise HttpError(400, "BadRequest", 'the body must be {"gracePeriodSeconds": SECONDS}, or nothing')
    return grace_s


def _of_status(request: Request) -> FieldWriter:
    return FieldWriter(writer_of(request).manager, "status")
