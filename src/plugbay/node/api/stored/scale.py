"""The subresource ``scale``: the number of pods of a Deployment or ReplicaSet, in the same shape for every kind.

Source: Kubernetes 1.36 ``registry/apps/deployment/storage/storage.go`` (ScaleREST), ``api/autoscaling/v1/types.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api import parameters
from plugbay.node.api.applying.field_manager import FieldWriter
from plugbay.node.api.applying.options import writer_of
from plugbay.node.api.parameters import check_parameters, is_rehearsal
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.decoding import decoded
from plugbay.node.api.stored.rows import row
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.bodies import body_of
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.preconditions import check_same
from plugbay.ops.routing import Request, Response, json_response
from plugbay.printers import v1
from plugbay.printers.workloads import selector_text

_SCALE: Final = row("autoscaling/v1", "scales", "Scale", stored=StoredKind())
_COPIED: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScaleRoutes:
    """Reads and changes how many pods objects of one kind have."""

    def __init__(self, resource: ApiResource, writer: ObjectWriter) -> None:
        self._resource = resource
        self._writer = writer

    @property
    def place(self) -> str:
        """The template of its address."""
        return f"{self._resource.base}/namespaces/{{namespace}}/{self._resource.plural}/{{name}}/scale"

    async def get(self, request: Request) -> Response:
        check_parameters(request, parameters.GET)
        return json_response(scale_object(self._value(request)))

    async def put(self, request: Request) -> Response:
        check_parameters(request, parameters.WRITE)
        return await self._write(request, decoded(body_of(request), _SCALE).value)

    async def patch(self, request: Request) -> Response:
        check_parameters(request, parameters.STORED_PATCH)
        before = scale_object(self._value(request))
        value = patched(before, request, _SCALE.merging)
        check_same(_SCALE, before, value)
        return await self._write(request, decoded(value, _SCALE).value)

    async def _write(self, request: Request, scale: Json) -> Response:
        before = self._value(request)
        spec = {**v1.mapping(before, "spec"), "replicas": v1.number(scale, "spec", "replicas")}
        version = v1.text(scale, "metadata", "resourceVersion")
        metadata = {**v1.mapping(before, "metadata"), **({"resourceVersion": version} if version else {})}
        wanted = {**before, "metadata": metadata, "spec": spec}
        writer = FieldWriter(writer_of(request).manager, "scale")
        changed = await self._writer.update(
            self._resource, before, wanted, writer=writer, rehearsal=is_rehearsal(request)
        )
        return json_response(scale_object(changed))

    def _value(self, request: Request) -> Json:
        return self._writer.get(self._resource, request.params["namespace"], request.params["name"])


def scale_object(value: Json) -> Json:
    """The Scale of a Deployment or ReplicaSet."""
    metadata = v1.mapping(value, "metadata")
    status: Json = {"replicas": v1.number(value, "status", "replicas")}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {name: metadata[name] for name in _COPIED if name in metadata},
        "spec": {"replicas": v1.number(value, "spec", "replicas")},
        "status": {**status, "selector": selector_text(v1.mapping(value, "spec", "selector"))},
    }
