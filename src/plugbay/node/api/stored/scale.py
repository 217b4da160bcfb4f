"""The subresource ``scale``: the number of pods that an object wants, in the same shape for every kind.

Source: Kubernetes 1.36 ``registry/apps/deployment/storage/storage.go`` (ScaleREST), ``api/autoscaling/v1/types.go``;
``apiextensions-apiserver/pkg/registry/customresource/etcd.go`` (ScaleREST).
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api import parameters
from plugbay.node.api.applying.field_manager import FieldWriter
from plugbay.node.api.applying.options import writer_of
from plugbay.node.api.parameters import check_parameters, is_rehearsal
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.listing import object_response
from plugbay.node.api.refusals import check_problems, not_allowed
from plugbay.node.api.resources import ApiResource, ScaledFields, StoredKind
from plugbay.node.api.stored.decoding import decoded
from plugbay.node.api.stored.rows import row
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.bodies import body_of
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.preconditions import check_same
from plugbay.objects.problems import invalid
from plugbay.ops.clock import Clock
from plugbay.ops.routing import Answer, HttpError, Request, json_response
from plugbay.printers import v1, workloads
from plugbay.printers.workloads import selector_text

_SCALE: Final = row("autoscaling/v1", "scales", "Scale", stored=StoredKind(), columns=workloads.SCALES)
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")
"""The metadata that says which object, and which state of it, a scale is meant for."""
_COPIED: Final = (*_IDENTITY, "creationTimestamp")
_NEGATIVE: Final = "must be greater than or equal to 0"


class ScaleRoutes:
    """Reads and changes how many pods objects of one kind have.

    Raises:
        HttpError: 405, objects of this kind have no scale.
    """

    def __init__(self, resource: ApiResource, writer: ObjectWriter, clock: Clock) -> None:
        if resource.stored is None or resource.stored.scaled is None:
            raise not_allowed()
        self._resource = resource
        self._fields = resource.stored.scaled
        self._writer = writer
        self._clock = clock

    async def get(self, request: Request) -> Answer:
        check_parameters(request, parameters.GET)
        value = self._value(request)
        if v1.at(value, *self._fields.wanted) is None:
            where = f".{'.'.join(self._fields.wanted)}"
            raise HttpError(400, "BadRequest", f'the spec replicas field "{where}" does not exist')
        return object_response(_SCALE, ApiItem.of(self._scale(value)), request, self._clock.now())

    async def put(self, request: Request) -> Answer:
        check_parameters(request, parameters.WRITE)
        return await self._write(request, decoded(body_of(request), _SCALE).value)

    async def patch(self, request: Request) -> Answer:
        check_parameters(request, parameters.STORED_PATCH)
        before = self._scale(self._value(request))
        value = patched(before, request, _SCALE.merging)
        check_same(_SCALE, before, value)
        return await self._write(request, decoded(value, _SCALE).value)

    async def _write(self, request: Request, scale: Json) -> Answer:
        before, number = self._value(request), v1.number(scale, "spec", "replicas")
        if number < 0:
            check_problems(_SCALE, v1.name(before), [invalid("spec.replicas", number, _NEGATIVE)])
        changed = _with(before, self._fields.wanted, number)
        meant = {name: text for name in _IDENTITY if (text := v1.text(scale, "metadata", name))}
        wanted = changed | {"metadata": v1.mapping(before, "metadata") | meant}
        writer = FieldWriter(writer_of(request).manager, "scale")
        after = await self._writer.update(
            self._resource, before, wanted, writer=writer, rehearsal=is_rehearsal(request)
        )
        return json_response(self._scale(after))

    def _value(self, request: Request) -> Json:
        return self._writer.get(self._resource, request.params.get("namespace", ""), request.params["name"])

    def _scale(self, value: Json) -> Json:
        return scale_object(value, self._fields)


def scale_object(value: Json, fields: ScaledFields) -> Json:
    """The Scale of an object."""
    metadata = v1.mapping(value, "metadata")
    selector = v1.at(value, *fields.selector) if fields.selector else None
    told = selector_text(selector) if isinstance(selector, dict) else selector or ""
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: metadata[name] for name in _COPIED if name in metadata},
        "spec": {"replicas": v1.number(value, *fields.wanted)},
        "status": {"replicas": v1.number(value, *fields.present)} | ({"selector": told} if told else {}),
    }


def _with(value: Json, path: tuple[str, ...], number: int) -> Json:
    """``value`` with a number at a path."""
    name, *rest = path
    inner = _with(v1.mapping(value, name), tuple(rest), number) if rest else number
    return {**value, name: inner}
