"""Objects made, changed and deleted, with all that an API server checks and fills in.

Source: Kubernetes 1.36 ``apiserver/pkg/registry/generic/registry/store.go``, ``apiserver/pkg/registry/rest``.
"""

from __future__ import annotations

import random
import uuid
from itertools import chain
from typing import Final, NamedTuple

from plugbay.documents import Json
from plugbay.model.downward import DEFAULT_ACCOUNT
from plugbay.node.api.applying.field_manager import FieldWriter, settled, tracked
from plugbay.node.api.refusals import (
    already_exists,
    check_problems,
    check_unversioned,
    conflict,
    forbidden_object,
    not_allowed,
    not_found,
)
from plugbay.node.api.resources import ApiResource, StoredKind
from plugbay.node.api.stored.namespaces import IMMORTAL, NAMESPACES
from plugbay.node.api.stored.priorities import PRIORITY_CLASSES
from plugbay.node.api.writing.delete_options import PROPAGATION_FINALIZERS, DeleteOptions
from plugbay.node.api.writing.preconditions import check_version
from plugbay.objects.metadata import (
    born,
    deleting,
    is_deleting,
    is_gone,
    metadata_problems,
    succeeded,
    update_problems,
)
from plugbay.objects.problems import invalid
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.status import timestamp
from plugbay.printers import v1

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names: no word can come of them."""
_TRIES: Final = 8


class DeletedObject(NamedTuple):
    """The last state of an object that is gone, or the state of one that waits for its finalizers."""

    value: Json
    is_gone: bool


class ObjectWriter:
    """Changes stored objects for clients and for the node's own controllers.

    Every method returns when the change is on disk; a rehearsal changes nothing and returns what would be. ``writer``
    owns the fields that it changes from then on; without one, the object's managers are those that it names.
    """

    def __init__(self, objects: ObjectTable, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    def get(self, resource: ApiResource, namespace: str, name: str) -> Json:
        """An object in the version of its group that ``resource`` is of.

        Raises:
            HttpError: 404, there is none.
        """
        if (found := self.find(resource, namespace, name)) is None:
            raise not_found(resource, name)
        return found

    def check_namespace(self, resource: ApiResource, namespace: str, name: str) -> None:
        """Check that an object can be made in a namespace.

        Raises:
            HttpError: 404 or 403, it does not exist, or is being deleted.

        Source: Kubernetes 1.36 ``apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go``.
        """
        if not resource.is_namespaced:
            return
        found = self._objects.get(ObjectKey("", NAMESPACES.plural, "", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if is_deleting(found):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden_object(resource, name, why, cause="NamespaceTerminating")

    def check_account(self, resource: ApiResource, namespace: str, name: str, *, account: str) -> None:
        """Check that a pod can be made for an account; each namespace gets the default one after a moment.

        Raises:
            HttpError: 403, there is no such account.

        Source: Kubernetes 1.36 ``plugin/pkg/admission/serviceaccount/admission.go``.
        """
        if account in ("", DEFAULT_ACCOUNT):
            return
        if self._objects.get(ObjectKey("", "serviceaccounts", namespace, account)) is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise forbidden_object(resource, name, why)

    def find(self, resource: ApiResource, namespace: str, name: str) -> Json | None:
        """As `get`; None if there is none."""
        value = self._objects.get(ObjectKey(resource.group, resource.plural, namespace, name))
        return None if value is None else value | {"apiVersion": resource.api_version}

    async def create(
        self,
        resource: ApiResource,
        wanted: Json,
        *,
        namespace: str,
        writer: FieldWriter | None = None,
        rehearsal: bool = False,
    ) -> Json:
        """Make an object of what a client wants.

        Raises:
            HttpError: 400, 409 or 422.
            StoreUnusable: it is not on disk.
        """
        kind = _rules(resource)
        self.check_namespace(resource, namespace, v1.name(wanted))
        _check_place(wanted, namespace)
        check_unversioned(wanted)
        value = self._born(resource, wanted, namespace)
        if resource.has_status:
            value.pop("status", None)
            value |= {} if resource.custom else {"status": {}}  # built-in kinds always show one
        value = self._tracked(resource, None, kind.prepare(value, None), wanted, writer)
        problems = chain(metadata_problems(value, kind.name_rule), kind.check(value, None))
        check_problems(resource, v1.name(value), problems)
        key = key_of(resource, value)
        if self._objects.get(key) is not None:
            raise already_exists(resource, key.name)
        self._check_default(resource, value)
        if rehearsal:
            return value
        made = await self._objects.create(key, value)
        await self._keep_newest(resource, kind.most)
        return made

    async def _keep_newest(self, resource: ApiResource, most: int) -> None:
        """Let the oldest objects of a kind go that has more than it may have."""
        present = self._objects.of(resource.group, resource.plural) if most else []
        by_age = sorted(present, key=lambda value: int(v1.text(value, "metadata", "resourceVersion")))
        for value in by_age[: max(len(present) - most, 0)]:
            if self._objects.get(key_of(resource, value)) is not None:
                await self._objects.remove(key_of(resource, value))

    async def update(
        self,
        resource: ApiResource,
        before: Json,
        wanted: Json,
        *,
        writer: FieldWriter | None = None,
        rehearsal: bool = False,
    ) -> Json:
        """Bring an object from the state ``before``, which is its present one, to another.

        Raises:
            HttpError: 400, 409 or 422.
            StoreUnusable: it is not on disk.
        """
        kind = _rules(resource)
        self._check_change(resource, before, wanted)
        if resource.has_status:
            wanted = {name: each for name, each in wanted.items() if name != "status"}
            wanted |= {"status": before["status"]} if "status" in before else {}
        # Defaults first: a client that leaves them out does not change the specification.
        value = succeeded(before, kind.prepare(wanted, before), has_generation=kind.has_generation)
        value = self._tracked(resource, before, value, wanted, writer)
        problems = chain(
            metadata_problems(value, kind.name_rule), update_problems(before, value), kind.check(value, before)
        )
        check_problems(resource, v1.name(before), problems)
        self._check_default(resource, value)
        return await self._put(resource, before, value, rehearsal=rehearsal)

    async def update_status(
        self,
        resource: ApiResource,
        before: Json,
        wanted: Json,
        *,
        writer: FieldWriter | None = None,
        rehearsal: bool = False,
    ) -> Json:
        """Change nothing but the status of an object.

        Raises:
            HttpError: 400, 409 or 422.
            StoreUnusable: it is not on disk.
        """
        self._check_change(resource, before, wanted)
        value = self._tracked(resource, before, before | {"status": wanted.get("status", {})}, wanted, writer)
        check_problems(resource, v1.name(before), _rules(resource).check(value, before))
        return await self._put(resource, before, value, rehearsal=rehearsal)

    async def finalize(self, resource: ApiResource, before: Json, wanted: Json, *, rehearsal: bool) -> Json:
        """Change what a namespace waits for before it goes.

        Raises:
            HttpError: 400 or 409.
            StoreUnusable: it is not on disk.
        """
        self._check_change(resource, before, wanted)
        value = before | {"spec": {"finalizers": v1.texts(wanted, "spec", "finalizers")}}
        return await self._put(resource, before, value, rehearsal=rehearsal)

    async def keep_status(self, resource: ApiResource, before: Json, status: Json, writer: FieldWriter) -> Json:
        """Keep a status that the node worked out; nothing of it is checked.

        Raises:
            StoreUnusable: it is not on disk.
        """
        value = self._tracked(resource, before, before | {"status": status}, before, writer)
        return await self._put(resource, before, value, rehearsal=False)

    async def delete(self, resource: ApiResource, before: Json, options: DeleteOptions) -> DeletedObject:
        """Delete an object, or have it wait for its finalizers.

        Raises:
            HttpError: 409, it is not the one that is meant.
            StoreUnusable: it is not on disk.
        """
        options.check(resource, before)
        if resource == NAMESPACES and v1.name(before) in IMMORTAL:
            raise forbidden_object(resource, v1.name(before), "this namespace may not be deleted")
        value = before
        if not is_deleting(before) or options.propagation is not None:
            now, has_generation = timestamp(self._clock.now()), _rules(resource).has_generation
            finalizers = () if options.propagation is None else options.propagation.finalizers
            wanted = _without_finalizers(before, PROPAGATION_FINALIZERS if options.propagation else ())
            value = deleting(wanted, now=now, finalizers=finalizers, has_generation=has_generation)
            value = _rules(resource).ending(value)
        if options.is_rehearsal:
            return DeletedObject(value, is_gone(value))
        if is_gone(value):
            return DeletedObject(await self._objects.remove(key_of(resource, before)), is_gone=True)
        return DeletedObject(await self._objects.replace(key_of(resource, before), value), is_gone=False)

    def _check_default(self, resource: ApiResource, value: Json) -> None:
        """Refuse a second priority class for pods that name none.

        Source: Kubernetes 1.36 ``plugin/pkg/admission/priority/admission.go``.
        """
        if resource != PRIORITY_CLASSES or value.get("globalDefault") is not True:
            return
        for each in self._objects.of(resource.group, resource.plural):
            if each.get("globalDefault") is True and v1.name(each) != v1.name(value):
                why = f"PriorityClass {v1.name(each)} is already marked as default. Only one default can exist"
                raise forbidden_object(resource, v1.name(value), why)

    def _tracked(
        self, resource: ApiResource, before: Json | None, value: Json, wanted: Json, writer: FieldWriter | None
    ) -> Json:
        """``value`` with its managers: those that ``wanted`` names, if it names any, changed by ``writer``."""
        if (managers := v1.at(wanted, "metadata", "managedFields")) is not None:
            value = value | {"metadata": v1.mapping(value, "metadata") | {"managedFields": managers}}
        if writer is not None:
            value = tracked(before, value, writer, resource.applying, now=timestamp(self._clock.now()))
        return value if before is None else settled(before, value)

    async def _put(self, resource: ApiResource, before: Json, value: Json, *, rehearsal: bool) -> Json:
        if rehearsal or value == before:
            return value
        key = key_of(resource, before)
        if is_gone(value):
            await self._objects.remove(key)
            return value
        return await self._objects.replace(key, value)

    def _born(self, resource: ApiResource, wanted: Json, namespace: str) -> Json:
        """The object with a name that is free, if it is to be made by us."""
        for _ in range(_TRIES):
            value = born(
                wanted,
                namespace=namespace,
                uid=str(uuid.uuid4()),
                now=timestamp(self._clock.now()),
                suffix="".join(random.choices(_SUFFIX, k=5)),
                has_generation=_rules(resource).has_generation,
            )
            if self._objects.get(key_of(resource, value)) is None:
                break
        return value

    def _check_change(self, resource: ApiResource, before: Json, wanted: Json) -> None:
        name = v1.name(before)
        if (found := v1.name(wanted)) != name:
            problem = f"the name of the object ({found}) does not match the name on the URL ({name})"
            raise HttpError(400, "BadRequest", problem)
        _check_place(wanted, v1.namespace(before))
        if _rules(resource).needs_version and not v1.text(wanted, "metadata", "resourceVersion"):
            check_problems(resource, name, [invalid("metadata.resourceVersion", 0, "must be specified for an update")])
        if (uid := v1.uid(wanted)) and uid != v1.uid(before):
            raise conflict(
                resource, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {v1.uid(before)}"
            )
        check_version(resource, before, wanted)


def key_of(resource: ApiResource, value: Json) -> ObjectKey:
    return ObjectKey(resource.group, resource.plural, v1.namespace(value), v1.name(value))


def _rules(resource: ApiResource) -> StoredKind:
    if resource.stored is None:
        raise not_allowed()
    return resource.stored


def _without_finalizers(value: Json, finalizers: tuple[str, ...]) -> Json:
    kept = [each for each in v1.texts(value, "metadata", "finalizers") if each not in finalizers]
    return value | {"metadata": v1.mapping(value, "metadata") | {"finalizers": kept}}


def _check_place(wanted: Json, namespace: str) -> None:
    found = v1.namespace(wanted)
    if found and found != namespace:
        problem = "the namespace of the provided object does not match the namespace sent on the request"
        raise HttpError(400, "BadRequest", problem)
