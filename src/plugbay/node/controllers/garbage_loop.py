"""Deletes what lost its owners, and lets go of owners that waited for what they own."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace
from typing import Final

from plugbay.documents import Json
from plugbay.errors import PlugbayError, PodNotFound
from plugbay.manifest.owners import owners_to_v1
from plugbay.model.ids import PodUid
from plugbay.model.owners import OwnerReference
from plugbay.node.api.resources import ApiResource, ResourceTable
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.delete_options import DeleteOptions, Propagation
from plugbay.node.controllers.garbage import (
    FOREGROUND,
    ORPHAN,
    Collection,
    Disowning,
    OwnedObject,
    OwnerState,
    Removal,
    collect,
)
from plugbay.node.controllers.listening import TableListener
from plugbay.node.controllers.seen_pods import owner_references
from plugbay.node.controllers.work import RETRIES, WorkQueue
from plugbay.objects.metadata import is_deleting, is_gone
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

logger = logging.getLogger(__name__)

_POLICIES: Final = {"": Propagation.BACKGROUND, FOREGROUND: Propagation.FOREGROUND, ORPHAN: Propagation.ORPHAN}


class GarbageLoop:
    """Follows all pods and stored objects, and which of them own which."""

    def __init__(
        self,
        resources: ResourceTable,
        objects: ObjectTable,
        writer: ObjectWriter,
        pods: PodTable,
        engine: PodEngine,
        clock: Clock,
    ) -> None:
        self._resources = resources
        self._objects = objects
        self._writer = writer
        self._pods = pods
        self._engine = engine
        self._queue = WorkQueue[str](clock)
        self._known: dict[str, OwnedObject] = {}
        self._dependents: dict[str, set[str]] = defaultdict(set)
        self._failures: dict[str, int] = {}
        self._pod_listener = TableListener[PodUid, PodRecord](self._pod_changed)
        self._object_listener = TableListener[ObjectKey, Json](self._object_changed)

    async def run(self) -> None:
        """Collect, until cancelled."""
        self._pods.attach(self._pod_listener)
        self._objects.attach(self._object_listener)
        for record in self._pods:
            self._pod_changed(Change.ADDED, record.uid, record)
        for key in self._objects.keys():
            if (value := self._objects.get(key)) is not None:
                self._object_changed(Change.ADDED, key, value)
        async for uid in self._queue:
            try:
                await self._look_at(uid)
            except (PlugbayError, HttpError) as error:
                self._retry(uid)
                logger.debug("the owners of %s are looked at again later: %s", uid, error)
            except Exception:  # a fault of ours in one object must not end the others
                self._retry(uid)
                logger.exception("looking at the owners of %s failed", uid)

    def _retry(self, uid: str) -> None:
        self._failures[uid] = failures = self._failures.get(uid, 0) + 1
        self._queue.put_later(uid, RETRIES.after(failures))

    # --- what is there --------------------------------------------------------------------------------------------

    def _pod_changed(self, change: Change, uid: PodUid, record: PodRecord) -> None:
        pod = record.pod
        key = ObjectKey("", "pods", pod.namespace, pod.name)
        self._changed(change, OwnedObject(key, uid, pod.owners, pod.finalizers, record.deletion is not None))

    def _object_changed(self, change: Change, key: ObjectKey, value: Json) -> None:
        finalizers = tuple(v1.texts(value, "metadata", "finalizers"))
        self._changed(change, OwnedObject(key, v1.uid(value), owner_references(value), finalizers, is_deleting(value)))

    def _changed(self, change: Change, item: OwnedObject) -> None:
        before = self._known.pop(item.uid, None)
        for owner in before.owners if before else ():
            self._dependents[owner.uid].discard(item.uid)
            if not self._dependents[owner.uid]:
                del self._dependents[owner.uid]
        if change is not Change.DELETED:
            self._known[item.uid] = item
            for owner in item.owners:
                self._dependents[owner.uid].add(item.uid)
        if before is not None and change is not Change.DELETED and before == item:
            return
        if item.owners or item.is_deleting:
            self._queue.put(item.uid)
        if change is Change.DELETED or item.is_deleting:
            for uid in self._dependents.get(item.uid, ()):
                self._queue.put(uid)
        for owner in item.owners:  # one that waits may have waited for this
            if (known := self._known.get(owner.uid)) is not None and known.is_deleting:
                self._queue.put(owner.uid)

    # --- one object -----------------------------------------------------------------------------------------------

    async def _look_at(self, uid: str) -> None:
        item = self._known.get(uid)
        if item is None:
            self._failures.pop(uid, None)
            return
        dependents = [self._known[each] for each in sorted(self._dependents.get(uid, ()))]
        for step in collect(item, dependents, lambda owner: self._state(owner, item)):
            await self._carry_out(step)
        self._failures.pop(uid, None)

    def _state(self, owner: OwnerReference, item: OwnedObject) -> OwnerState:
        """The state of an owner; one of a kind that is not followed here is taken to be there."""
        known = self._known.get(owner.uid)
        if known is not None and known.key.namespace in ("", item.key.namespace):
            return OwnerState.WAITING if known.waits_for_dependents else OwnerState.PRESENT
        is_followed = any(
            (each.api_version, each.kind) == (owner.api_version, owner.kind)
            and (each.stored is not None or each.plural == "pods")
            for each in self._resources
        )
        return OwnerState.ABSENT if is_followed else OwnerState.PRESENT

    async def _carry_out(self, step: Collection) -> None:
        if step.key.plural == "pods" and not step.key.group:
            await self._carry_out_pod(step)
            return
        value = self._objects.get(step.key)
        if value is None or v1.uid(value) != step.uid:
            return
        if isinstance(step, Removal):
            row = self._row(step.key)
            options = DeleteOptions(None, False, step.uid, "", _POLICIES[step.policy])
            if row is not None and not is_deleting(value):
                await self._writer.delete(row, value, options)
            return
        metadata = {
            **v1.mapping(value, "metadata"),
            "ownerReferences": owners_to_v1(step.owners),
            "finalizers": list(step.finalizers),
        }
        value = {**value, "metadata": {name: each for name, each in metadata.items() if each or each == 0}}
        if is_gone(value):
            await self._objects.remove(step.key)
        else:
            await self._objects.replace(step.key, value)

    async def _carry_out_pod(self, step: Collection) -> None:
        if PodUid(step.uid) not in self._pods:
            return
        record = self._pods[PodUid(step.uid)]
        match step:
            case Disowning(owners=owners, finalizers=finalizers):
                await self._engine.update(record, replace(record.pod, owners=owners, finalizers=finalizers))
            case Removal(policy=policy) if record.deletion is None:
                if policy and policy not in record.pod.finalizers:
                    pod = replace(record.pod, finalizers=(*record.pod.finalizers, policy))
                    await self._engine.update(record, pod)
                try:
                    await self._engine.delete(record.pod.namespace, record.pod.name)
                except PodNotFound:
                    return

    def _row(self, key: ObjectKey) -> ApiResource | None:
        rows = (each for each in self._resources if (each.group, each.plural) == (key.group, key.plural))
        return next(rows, None)
