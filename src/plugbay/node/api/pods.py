"""Pods: made, changed and deleted."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

from plugbay.documents import Json
from plugbay.errors import InvalidManifest, PodNotFound
from plugbay.manifest import pod_from_v1
from plugbay.model.pods import Pod
from plugbay.node.access.rights import ClientRights
from plugbay.node.api.applying.configurations import apply_configuration, configuration_of, unmatched_uid
from plugbay.node.api.applying.field_manager import FieldWriter, settled, tracked
from plugbay.node.api.applying.options import is_apply, writer_of
from plugbay.node.api.applying.pods import managed_pod, managers_in, pod_managers, settled_managers
from plugbay.node.api.objects import pod_object
from plugbay.node.api.parameters import is_rehearsal
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.forms import list_body
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.refusals import check_problems, check_unversioned
from plugbay.node.api.resources import PODS
from plugbay.node.api.stored.decoding import decoded
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.bodies import body_of, repeated_in
from plugbay.node.api.writing.delete_options import DeleteOptions, delete_options
from plugbay.node.api.writing.invalid_pods import invalid_pod
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.pod_conditions import check_only_conditions, conditions_in, with_conditions_of_clients
from plugbay.node.api.writing.preconditions import check_same, check_version
from plugbay.objects import merge_rules
from plugbay.objects.metadata import update_problems
from plugbay.ops.clock import Clock
from plugbay.ops.routing import JSON, HttpError, Request, Response, json_response
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1


class PodRoutes:
    def __init__(
        self,
        engine: PodEngine,
        pods: PodTable,
        collection: Collection,
        writer: ObjectWriter,
        rights: ClientRights,
        *,
        node: str,
        runtime: str,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._node = node
        self._pods = pods
        self._collection = collection
        self._writer = writer
        self._rights = rights
        self._runtime = runtime
        self._clock = clock

    async def create(self, request: Request) -> Response:
        writer, body = writer_of(request), _pod_body(request)
        pod = _read_pod(body, request)
        check_unversioned(body)
        entries = v1.at(body, "metadata", "managedFields")
        return await self._create(pod, pod_managers(None, pod, entries, writer, now=self._now()), request)

    async def _create(self, pod: Pod, managed: tuple[Json, ...], request: Request) -> Response:
        self._writer.check_namespace(PODS, pod.namespace, pod.name)
        self._writer.check_account(PODS, pod.namespace, pod.name, account=pod.spec.service_account)
        if is_rehearsal(request):
            made = self._engine.rehearse_create(pod, managed=managed)
        else:
            made = await self._engine.create(pod, managed=managed)
        return json_response(self._shown(made), status=201)

    async def put(self, request: Request) -> Response:
        """Change what may be changed of a pod; a resource version that stays tells that nothing did."""
        name = request.params["name"]
        writer, body = writer_of(request), body_of(request)
        wanted = _read_pod(body, request)
        if wanted.name != name:
            problem = f"the name of the object ({wanted.name}) does not match the name on the URL ({name})"
            raise HttpError(400, "BadRequest", problem)
        record = pod_of(self._pods, request)
        check_version(PODS, self._shown(record), body)
        if record.deletion is not None and not v1.uid(body):  # a manifest is meant for a new pod
            raise HttpError(409, "Conflict", f'object is being deleted: pods "{name}" already exists')
        return await self._update(record, wanted, self._changed(record, wanted, body, writer), request)

    def _changed(self, record: PodRecord, wanted: Pod, value: object, writer: FieldWriter) -> tuple[Json, ...]:
        """The managers of a pod that is changed to what ``value`` says, which is ``wanted``."""
        after = self._engine.rehearse_update(record, wanted).pod
        return pod_managers(record, after, v1.at(value, "metadata", "managedFields"), writer, now=self._now())

    async def _update(self, record: PodRecord, wanted: Pod, managed: tuple[Json, ...], request: Request) -> Response:
        finalizers: Json = {"metadata": {"finalizers": list(wanted.finalizers)}}
        check_problems(PODS, record.pod.name, update_problems(self._shown(record), finalizers))
        if is_rehearsal(request):
            return json_response(self._shown(self._engine.rehearse_update(record, wanted, managed=managed)))
        return json_response(self._shown(await self._engine.update(record, wanted, managed=managed)))

    async def patch(self, request: Request) -> Response:
        """Change the pod as a patch says; a patch that names a resource version is for that one only."""
        writer = writer_of(request)
        if is_apply(request):
            return await self._apply(request, writer)
        record = pod_of(self._pods, request)
        value = patched(self._shown(record), request, merge_rules.POD)
        check_same(PODS, self._shown(record), value)
        wanted = _read_pod(value, request)
        return await self._update(record, wanted, self._changed(record, wanted, value, writer), request)

    async def _apply(self, request: Request, writer: FieldWriter) -> Response:
        """Make the pod, or change what may be changed, as a configuration says."""
        config = configuration_of(request, PODS.kind, PODS.api_version)
        config = {name: each for name, each in config.items() if name != "status"}
        decoded(config, PODS)  # a value of another type is told before what it would take from others
        try:
            record = pod_of(self._pods, request)
        except PodNotFound:
            if v1.uid(config):
                raise unmatched_uid(PODS.qualified, config) from None
            self._check_creating(request)
            value = apply_configuration(None, config, request, writer, PODS.applying, now=self._now())
            return await self._create(_read_pod(value, request), managers_in(value), request)
        check_version(PODS, self._shown(record), config)
        value = apply_configuration(managed_pod(record), config, request, writer, PODS.applying, now=self._now())
        wanted = _read_pod(value, request)
        after = self._engine.rehearse_update(record, wanted).pod
        return await self._update(record, wanted, settled_managers(record, after, value), request)

    def _check_creating(self, request: Request) -> None:
        namespace, name = request.params["namespace"], request.params["name"]
        self._rights.check_creating(
            request.headers, group=PODS.group, plural=PODS.plural, namespace=namespace, name=name
        )

    async def get_status(self, request: Request) -> Response:
        return json_response(self._shown(pod_of(self._pods, request)))

    async def patch_status(self, request: Request) -> Response:
        writer = FieldWriter(writer_of(request).manager, "status")
        record = pod_of(self._pods, request)
        shown = self._shown(record)
        if is_apply(request):
            config = configuration_of(request, PODS.kind, PODS.api_version)
            check_version(PODS, shown, config)
            config = {"apiVersion": "v1", "kind": "Pod", "status": config.get("status", {})}
            value = apply_configuration(shown, config, request, writer, PODS.applying, now=self._now())
            managed = managers_in(settled(shown, value))
        else:
            value = patched(shown, request, merge_rules.POD)
            managed = self._status_managers(record, value, writer)
        check_only_conditions(shown, value)
        return await self._set_status(record, value, managed, request)

    async def put_status(self, request: Request) -> Response:
        value = body_of(request)
        if not isinstance(value, dict):
            raise HttpError(400, "BadRequest", "the body must be a Pod")
        writer = FieldWriter(writer_of(request).manager, "status")
        record = pod_of(self._pods, request)
        return await self._set_status(record, value, self._status_managers(record, value, writer), request)

    def _status_managers(self, record: PodRecord, value: Json, writer: FieldWriter) -> tuple[Json, ...]:
        """The managers of a pod after a client has set the conditions that ``value`` has."""
        before, after = (
            with_conditions_of_clients(self._shown(each))
            for each in (record, replace(record, conditions=conditions_in(value)))
        )
        return managers_in(settled(before, tracked(before, after, writer, PODS.applying, now=self._now())))

    async def _set_status(
        self, record: PodRecord, value: Json, managed: tuple[Json, ...], request: Request
    ) -> Response:
        """Keep the conditions that clients set, which are all of the status that is not the node's."""
        check_version(PODS, self._shown(record), value)
        conditions = conditions_in(value)
        if is_rehearsal(request):
            return json_response(self._shown(replace(record, conditions=conditions, managed=managed)))
        return json_response(self._shown(await self._engine.set_conditions(record, conditions, managed=managed)))

    async def bind(self, request: Request) -> Response:
        """Give the pod its place, as a scheduler of its own asks for it with a Binding."""
        binding = body_of(request)
        record = pod_of(self._pods, request)
        if not isinstance(binding, dict) or v1.name(binding) not in ("", record.pod.name):
            raise HttpError(400, "BadRequest", f"the body must be a Binding of the pod {record.pod.name}")
        if (uid := v1.uid(binding)) and uid != record.uid:
            problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
            raise HttpError(409, "Conflict", problem, details={"name": record.pod.name, "kind": PODS.plural})
        kind, target = v1.text(binding, "target", "kind"), v1.text(binding, "target", "name")
        if kind not in ("", "Node") or target != self._node:
            problem = f"target: Invalid value: {kind or 'Node'} {target!r}: the only node here is {self._node}"
            raise HttpError(422, "Invalid", problem, details={"name": record.pod.name, "kind": "Binding"})
        self._engine.check_bindable(record)
        if not is_rehearsal(request):
            await self._engine.bind(record)
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, status=201)

    async def evict(self, request: Request) -> Response:
        """Delete the pod, as an Eviction asks for it; there are no disruption budgets that could forbid it."""
        eviction = body_of(request)
        options = eviction.get("deleteOptions") if isinstance(eviction, dict) else None
        name = request.params["name"]
        if not isinstance(eviction, dict) or v1.name(eviction) not in ("", name):
            raise HttpError(400, "BadRequest", f"the body must be an Eviction of the pod {name}")
        body = json.dumps(options or {}).encode()
        await self.delete(replace(request, body=body, headers={}))
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, status=201)

    async def delete_collection(self, request: Request) -> Response:
        """Delete all pods that the request selects; the answer is their list."""
        selection = ItemSelection(request, PODS)
        options = delete_options(request)
        items = [item for item in self._collection.all() if selection.holds(item)]
        for item in items:
            with suppress(PodNotFound):  # it has gone by itself meanwhile
                await self._delete(item.namespace, item.name, options)
        metadata: Json = {"resourceVersion": str(self._collection.version)}
        return Response(body=list_body(PODS, items, metadata), content_type=JSON)

    async def delete(self, request: Request) -> Response:
        options = delete_options(request)
        return json_response(
            self._shown(await self._delete(request.params["namespace"], request.params["name"], options))
        )

    async def _delete(self, namespace: str, name: str, options: DeleteOptions) -> PodRecord:
        record = self._pods.named(namespace, name)
        options.check(PODS, self._shown(record))
        if options.is_rehearsal:
            return record
        if options.propagation is not None and options.propagation.finalizers:
            finalizers = tuple(dict.fromkeys((*record.pod.finalizers, *options.propagation.finalizers)))
            await self._engine.update(record, replace(record.pod, finalizers=finalizers))
        return await self._engine.delete(namespace, name, grace_s=options.grace_s)

    def _now(self) -> str:
        return timestamp(self._clock.now())

    def _shown(self, record: PodRecord) -> Json:
        return pod_object(record, runtime=self._runtime)


def _pod_body(request: Request) -> object:
    """
    Raises:
        HttpError: 400 or 415, it cannot be read, or a field stands twice.
    """
    body = body_of(request)
    if repeated := repeated_in(request):
        fields = ", ".join(f'duplicate field "{name}"' for name in repeated)
        raise HttpError(400, "BadRequest", f"strict decoding error: {fields}")
    return body


def _read_pod(value: object, request: Request) -> Pod:
    """The pod that ``value`` describes.

    Raises:
        HttpError: ``value`` is not a pod, or is in another namespace than the request's.
    """
    namespace = request.params["namespace"]
    try:
        pod = pod_from_v1(_in_namespace(value, namespace))
    except InvalidManifest as error:
        raise invalid_pod(value, error) from error
    if pod.namespace != namespace:
        problem = "the namespace of the provided object does not match the namespace sent on the request"
        raise HttpError(400, "BadRequest", problem)
    return pod


def _in_namespace(value: object, namespace: str) -> object:
    """The request's namespace counts for a pod that names none. Typed clients leave out that it is a Pod of v1."""
    if isinstance(value, dict) and isinstance(metadata := value.get("metadata"), dict):
        return {"apiVersion": "v1", "kind": "Pod", **value, "metadata": {"namespace": namespace, **metadata}}
    return value


def pod_of(pods: PodTable, request: Request) -> PodRecord:
    """The pod a request names.

    Raises:
        PodNotFound: there is none.
    """
    return pods.named(request.params["namespace"], request.params["name"])
