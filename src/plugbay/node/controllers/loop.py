"""Looks after the objects that make pods: whatever happens to them or to their pods, the next step is taken.

Everything is read from the tables of the node, which are never behind: nothing is made twice. What is made is on disk
with its owner before the next step, so a node that is killed goes on where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from plugbay.documents import Json
from plugbay.errors import PlugbayError
from plugbay.model.ids import PodUid
from plugbay.model.owners import controller_of
from plugbay.node.api.applying.field_manager import tracked
from plugbay.node.api.resources import ApiResource
from plugbay.node.api.stored.workloads.rows import WORKLOADS
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.delete_options import DeleteOptions, Propagation
from plugbay.node.controllers.actions import (
    Action,
    Children,
    CreateObject,
    CreatePod,
    DeleteObject,
    EditPod,
    RemovePod,
    ReplaceObject,
    Tell,
    soonest,
)
from plugbay.node.controllers.daemon_sets import KIND as DAEMON_SET
from plugbay.node.controllers.daemon_sets import FailedPods, daemon_pod
from plugbay.node.controllers.jobs.seen import TRACKING
from plugbay.node.controllers.kinds import DEPLOYMENTS, JOBS, REPLICA_SETS, Controller, daemon_sets
from plugbay.node.controllers.listening import TableListener
from plugbay.node.controllers.pods import CONTROLLERS, STATUS, ControlledPods
from plugbay.node.controllers.seen_pods import owner_references
from plugbay.node.controllers.work import RETRIES, WorkQueue
from plugbay.objects.metadata import succeeded
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.events import EventType, ObjectRef
from plugbay.pods.record import PodRecord
from plugbay.pods.status import timestamp
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

logger = logging.getLogger(__name__)

_ROWS: Final = {each.plural: each for each in WORKLOADS}
_FAILED_DAEMON: Final = "FailedDaemonPod"


class NodeConditions(NamedTuple):
    """Whether a pod of a DaemonSet may start on the node, and whether it may stay."""

    runs: bool
    stays: bool


class ControllerLoop:
    """One task that takes the next step for each object that something happened to.

    Args:
        fits: whether the node is one for a pod.
        node: the name of the node.
    """

    def __init__(
        self,
        objects: ObjectTable,
        writer: ObjectWriter,
        pods: PodTable,
        controlled: ControlledPods,
        events: EventLog,
        *,
        fits: Callable[[Json], NodeConditions],
        node: str,
        clock: Clock,
    ) -> None:
        self._objects = objects
        self._writer = writer
        self._pods = pods
        self._controlled = controlled
        self._events = events
        self._fits = fits
        self._clock = clock
        self._queue = WorkQueue[ObjectKey](clock)
        self._failures: dict[ObjectKey, int] = {}
        self._failed_daemons: dict[str, FailedPods] = {}
        by_uid = self._failed_daemons
        daemons = daemon_sets(node, lambda uid: by_uid.get(uid, FailedPods()))
        self._controllers = {each.plural: each for each in (REPLICA_SETS, DEPLOYMENTS, daemons, JOBS)}
        self._pod_listener = TableListener[PodUid, PodRecord](self._pod_changed)
        self._object_listener = TableListener[ObjectKey, Json](self._object_changed)

    async def run(self) -> None:
        """Look after all objects, until cancelled."""
        self._pods.attach(self._pod_listener)
        self._objects.attach(self._object_listener)
        for key in self._objects.keys():
            self._notice(key)
        for record in self._pods:
            self._pod_changed(Change.ADDED, record.uid, record)
        async for key in self._queue:
            if key.plural == DEPLOYMENTS.plural and any(each.plural == REPLICA_SETS.plural for each in self._queue):
                self._queue.put(key)  # it is decided by what the status of its ReplicaSets says
                continue
            try:
                await self._look_after(key)
            except PlugbayError as error:
                self._retry(key, str(error))
            except HttpError as error:
                self._retry(key, error.message)
            except Exception:  # a fault of ours in one object must not end the others
                logger.exception("looking after %s %s/%s failed", key.plural, key.namespace, key.name)
                self._retry(key, "fault")

    def look_at_daemon_sets(self) -> None:
        """Look at all DaemonSets, as the node has changed."""
        for key in self._objects.keys():
            if key.plural == "daemonsets":
                self._notice(key)

    # --- what happened --------------------------------------------------------------------------------------------

    def _notice(self, key: ObjectKey) -> None:
        if key.plural in self._controllers and key.group == self._controllers[key.plural].group:
            self._queue.put(key)

    def _object_changed(self, change: Change, key: ObjectKey, value: Json) -> None:
        self._notice(key)
        owner = controller_of(owner_references(value))
        if owner is None:
            if key.plural == REPLICA_SETS.plural:
                self._notice_all(key.namespace, pods=False)
            return
        self._notice_owner(owner.api_version, owner.kind, key.namespace, owner.name)

    def _pod_changed(self, change: Change, uid: PodUid, record: PodRecord) -> None:
        namespace = record.pod.namespace
        if change is Change.DELETED:
            self._controlled.forget(uid)
        owner = controller_of(record.pod.owners)
        if owner is not None:
            self._notice_owner(owner.api_version, owner.kind, namespace, owner.name)
        elif TRACKING in record.pod.finalizers:
            self._queue.put(ObjectKey(JOBS.group, JOBS.plural, namespace, ""))
        elif change is not Change.DELETED:
            self._notice_all(namespace, pods=True)

    def _notice_owner(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        for each in self._controllers.values():
            if (each.kind, each.api_version) == (kind, api_version):
                self._queue.put(ObjectKey(each.group, each.plural, namespace, name))

    def _notice_all(self, namespace: str, *, pods: bool) -> None:
        """Look at all that might adopt a child without a controller."""
        for each in self._controllers.values():
            if each.has_pods is pods:
                for value in self._objects.of(each.group, each.plural):
                    if v1.namespace(value) == namespace:
                        self._queue.put(ObjectKey(each.group, each.plural, namespace, v1.name(value)))

    # --- one object -----------------------------------------------------------------------------------------------

    async def _look_after(self, key: ObjectKey) -> None:
        value = self._objects.get(key)
        if key.plural == JOBS.plural:
            await self._release_lost(key.namespace)
        if value is None:
            self._failures.pop(key, None)
            self._queue.put_later(key, None)
            return
        controller = self._controllers[key.plural]
        plan = controller.plan(value, self._children(key.namespace, value), self._clock.now())
        problem = await self._carry_out(controller, value, plan.actions)
        value = self._objects.get(key)
        if value is None:
            return
        children = self._children(key.namespace, value)
        outcome = controller.status(value, children, self._clock.now(), problem=problem)
        for each in outcome.events:
            self._tell(controller, value, each)
        if outcome.status != v1.mapping(value, "status"):
            await self._writer.keep_status(_ROWS[key.plural], value, outcome.status, STATUS)
        if problem:
            self._retry(key, problem)
        else:
            self._failures.pop(key, None)
            self._queue.put_later(key, soonest(plan.again_s, outcome.again_s))

    def _children(self, namespace: str, value: Json) -> Children:
        stored = {
            plural: [each for each in self._objects.of("apps", plural) if v1.namespace(each) == namespace]
            for plural in ("replicasets", "controllerrevisions")
        }
        fits = self._fits(daemon_pod(value)) if value.get("kind") == DAEMON_SET else NodeConditions(True, True)
        return Children(self._controlled.of(namespace), stored, fits.runs, fits.stays)

    def _retry(self, key: ObjectKey, problem: str) -> None:
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        self._queue.put_later(key, RETRIES.after(failures))
        logger.debug("%s %s/%s is looked at again later: %s", key.plural, key.namespace, key.name, problem)

    async def _release_lost(self, namespace: str) -> None:
        """Take the finalizer from pods whose Job has gone: nothing will count them."""
        jobs = {v1.uid(each) for each in self._objects.of(JOBS.group, JOBS.plural)}
        for pod in self._controlled.of(namespace):
            owner = controller_of(pod.owners)
            if TRACKING in pod.finalizers and (owner is None or owner.uid not in jobs):
                left = tuple(each for each in pod.finalizers if each != TRACKING)
                await self._controlled.edit(EditPod(pod, pod.owners, left))

    # --- what is done ---------------------------------------------------------------------------------------------

    async def _carry_out(self, controller: Controller, value: Json, actions: Sequence[Action]) -> str:
        """Do what was decided; what is returned is the problem that kept pods from being made."""

        def created(name: str) -> None:
            self._tell(controller, value, Tell("SuccessfulCreate", f"Created pod: {name}"))

        def deleted(name: str) -> None:
            self._tell(controller, value, Tell("SuccessfulDelete", f"Deleted pod: {name}"))

        for action in actions:
            match action:
                case EditPod():
                    await self._controlled.edit(action)
                case RemovePod():
                    await self._controlled.delete(action, deleted)
                case CreateObject(plural, wanted):
                    await self._writer.create(_ROWS[plural], wanted, namespace=v1.namespace(value), writer=CONTROLLERS)
                case ReplaceObject(plural, wanted):
                    await self._replace(_ROWS[plural], wanted)
                case DeleteObject(plural, gone, in_foreground):
                    await self._delete(_ROWS[plural], gone, in_foreground=in_foreground)
                case Tell():
                    self._tell(controller, value, action)
                    if action.reason == _FAILED_DAEMON:
                        uid = v1.uid(value)
                        failed = self._failed_daemons.get(uid, FailedPods())
                        self._failed_daemons[uid] = failed.after(self._clock.now())
        made = [action for action in actions if isinstance(action, CreatePod)]
        problem = await self._controlled.create(made, created)
        if problem:
            self._tell(controller, value, Tell("FailedCreate", f"Error creating: {problem}", is_warning=True))
        return problem

    async def _replace(self, row: ApiResource, wanted: Json) -> None:
        """Replace an object that is still as it was when the decision was made; else it is decided again."""
        key = ObjectKey(row.group, row.plural, v1.namespace(wanted), v1.name(wanted))
        before = self._objects.get(key)
        if before is not None and _version(before) == _version(wanted):
            has_generation = row.stored is not None and row.stored.has_generation
            value = succeeded(before, wanted, has_generation=has_generation)
            now = timestamp(self._clock.now())
            await self._objects.replace(key, tracked(before, value, CONTROLLERS, row.applying, now=now))

    async def _delete(self, row: ApiResource, gone: Json, *, in_foreground: bool) -> None:
        key = ObjectKey(row.group, row.plural, v1.namespace(gone), v1.name(gone))
        before = self._objects.get(key)
        if before is not None and v1.uid(before) == v1.uid(gone):
            policy = Propagation.FOREGROUND if in_foreground else Propagation.BACKGROUND
            options = DeleteOptions(None, is_rehearsal=False, uid=v1.uid(gone), version="", propagation=policy)
            await self._writer.delete(row, before, options)

    def _tell(self, controller: Controller, value: Json, what: Tell) -> None:
        about = ObjectRef(
            controller.kind, v1.namespace(value), v1.name(value), v1.uid(value), api_version=controller.api_version
        )
        kind = EventType.WARNING if what.is_warning else EventType.NORMAL
        self._events.record(about, kind, what.reason, what.message, component=controller.component)


def _version(value: Json) -> str:
    return v1.text(value, "metadata", "resourceVersion")
