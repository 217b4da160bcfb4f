"""The pods of the node as controllers see and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from plugbay.errors import PlugbayError, PodNotFound
from plugbay.manifest import pod_from_v1
from plugbay.model.ids import PodUid
from plugbay.node.api.applying.field_manager import FieldWriter
from plugbay.node.api.applying.pods import pod_managers
from plugbay.node.api.objects import pod_object
from plugbay.node.api.resources import PODS
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.controllers.actions import CreatePod, EditPod, RemovePod
from plugbay.node.controllers.seen_pods import SeenPod, seen_pod
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable

CONTROLLERS: Final = FieldWriter("kube-controller-manager")
STATUS: Final = FieldWriter(CONTROLLERS.manager, "status")
"""The owners of what controllers write, by the name of the program that they are in elsewhere."""


class ControlledPods:
    """Reads pods from the table, and changes them by the engine."""

    def __init__(self, pods: PodTable, engine: PodEngine, writer: ObjectWriter, clock: Clock) -> None:
        self._pods = pods
        self._writer = writer
        self._engine = engine
        self._clock = clock
        self._seen: dict[PodUid, tuple[int, SeenPod]] = {}

    def see(self, record: PodRecord) -> SeenPod:
        """The pod, converted once for each of its versions."""
        known = self._seen.get(record.uid)
        if known is not None and known[0] == record.version:
            return known[1]
        seen = seen_pod(pod_object(record, runtime=""))
        self._seen[record.uid] = (record.version, seen)
        return seen

    def forget(self, uid: PodUid) -> None:
        self._seen.pop(uid, None)

    def of(self, namespace: str) -> list[SeenPod]:
        """All pods of a namespace, oldest first."""
        return [self.see(record) for record in self._pods if record.pod.namespace == namespace]

    async def create(self, made: Sequence[CreatePod], told: Callable[[str], None]) -> str:
        """Make pods: one, and if that works all others at the same time.

        Args:
            told: called with the name of each pod that was made.

        Returns:
            The first problem; empty if there is none.
        """

        async def make(one: CreatePod) -> str:
            try:
                pod = pod_from_v1(one.value)
                name = pod.name or pod.generate_name
                self._writer.check_namespace(PODS, pod.namespace, name)
                self._writer.check_account(PODS, pod.namespace, name, account=pod.spec.service_account)
                managed = pod_managers(None, pod, None, CONTROLLERS, now=timestamp(self._clock.now()))
                record = await self._engine.create(pod, managed=managed)
            except PlugbayError as error:
                return str(error)
            except HttpError as error:
                return error.message
            told(record.pod.name)
            return ""

        if not made or (problem := await make(made[0])):
            return problem if made else ""
        async with asyncio.TaskGroup() as tasks:
            making = [tasks.create_task(make(each)) for each in made[1:]]
        return next((problem for each in making if (problem := each.result())), "")

    async def delete(self, action: RemovePod, told: Callable[[str], None]) -> None:
        """Delete a pod if it is still the one that was seen, and not being deleted yet."""
        record = self._same(action.pod)
        if record is None or record.deletion is not None:
            return
        try:
            await self._engine.delete(record.pod.namespace, record.pod.name)
        except PodNotFound:
            return
        told(record.pod.name)

    async def edit(self, action: EditPod) -> None:
        record = self._same(action.pod)
        if record is not None:
            pod = replace(record.pod, owners=action.owners, finalizers=action.finalizers)
            await self._engine.update(record, pod)

    def _same(self, pod: SeenPod) -> PodRecord | None:
        uid = PodUid(pod.uid)
        return self._pods[uid] if uid in self._pods else None
