"""The node's own care for namespaces: those that must be there, their default accounts, and the end of their contents.

Source: Kubernetes 1.36 ``pkg/controller/namespace``, ``pkg/controller/serviceaccount/serviceaccounts_controller.go``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from plugbay.documents import Json
from plugbay.errors import PlugbayError, PodNotFound
from plugbay.model.ids import PodUid
from plugbay.node.access.account_access import AccountAccess
from plugbay.node.api.resources import PODS, ResourceTable
from plugbay.node.api.stored.accounts.identity import SERVICE_ACCOUNTS
from plugbay.node.api.stored.configuration import CONFIG_MAPS
from plugbay.node.api.stored.events import EventEnds
from plugbay.node.api.stored.namespaces import ALWAYS, NAMESPACES, content_conditions
from plugbay.node.api.stored.writing import ObjectWriter, key_of
from plugbay.node.api.writing.delete_options import AT_ONCE
from plugbay.node.controllers.pods import CONTROLLERS, STATUS
from plugbay.objects.metadata import is_deleting
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.objects.watch import Change
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.running.projecting import ROOT_AUTHORITY
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

logger = logging.getLogger(__name__)

DEFAULT_ACCOUNT: Final = "default"
_RETRY_S: Final = 5.0


class NamespaceKeeper:
    """Keeps what every namespace must have, and ends what is in those that are deleted."""

    def __init__(
        self,
        writer: ObjectWriter,
        objects: ObjectTable,
        pods: PodTable,
        *,
        engine: PodEngine,
        resources: ResourceTable,
        events: EventEnds,
        accounts: AccountAccess | None,
        clock: Clock,
    ) -> None:
        self._writer = writer
        self._events = events
        self._accounts = accounts
        self._objects = objects
        self._pods = pods
        self._engine = engine
        self._resources = resources
        self._clock = clock
        self._due = Changes()
        self._pod_changes = _PodChanges(self._due)
        objects.attach(self)
        pods.attach(self._pod_changes)

    async def prepare(self) -> None:
        """Make what must be there when the node begins."""
        names = {*ALWAYS, *(record.pod.namespace for record in self._pods)}
        async with asyncio.TaskGroup() as tasks:  # they share a write to the disk
            for name in sorted(names):
                tasks.create_task(self._enter(name), name=f"namespace {name}")
        async with asyncio.TaskGroup() as tasks:
            for name in self._lacking_account():
                tasks.create_task(self._give_account(name), name=f"account of {name}")

    async def run(self) -> None:
        """Follow changes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self._accounts is not None:
                tasks.create_task(self._follow_api(self._accounts), name="wait for the API")
            await self._follow()

    async def _follow_api(self, accounts: AccountAccess) -> None:
        await accounts.way()
        self._due.notify()

    async def _follow(self) -> None:
        async for _ in self._due:
            try:
                await self._look()
            except (PlugbayError, HttpError) as error:
                logger.warning(
                    "cannot make or remove what belongs to namespaces, trying again in %g s: %s", _RETRY_S, error
                )
                await self._clock.sleep(_RETRY_S)
                self._due.notify()

    def put(self, change: Change, key: ObjectKey, value: Json) -> None:
        """Take in a change of an object; the table of objects tells of it."""
        is_followed = key.plural in (NAMESPACES.plural, SERVICE_ACCOUNTS.plural) or key.name == ROOT_AUTHORITY
        if change is Change.MODIFIED and key.plural == NAMESPACES.plural:
            self._engine.try_waiting()
        if change is Change.DELETED or is_followed:
            self._due.notify()

    async def _look(self) -> None:
        for name in {record.pod.namespace for record in self._pods}:
            await self._enter(name)  # static pods ask for no permission
        for name in self._lacking_account():
            await self._give_account(name)
        served = self._accounts.served if self._accounts is not None else None
        for namespace in self._objects.of("", NAMESPACES.plural):
            if is_deleting(namespace):
                await self._empty(namespace)
            elif served is not None:
                await self._give_authority(v1.name(namespace), served.authority)

    async def _enter(self, name: str) -> None:
        if self._objects.get(ObjectKey("", NAMESPACES.plural, "", name)) is None:
            wanted: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self._writer.create(NAMESPACES, wanted, namespace="")

    def _lacking_account(self) -> Iterable[str]:
        for namespace in self._objects.of("", NAMESPACES.plural):
            name = v1.name(namespace)
            account = ObjectKey("", SERVICE_ACCOUNTS.plural, name, DEFAULT_ACCOUNT)
            if not is_deleting(namespace) and self._objects.get(account) is None:
                yield name

    async def _give_account(self, namespace: str) -> None:
        wanted: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT_ACCOUNT}}
        await self._writer.create(SERVICE_ACCOUNTS, wanted, namespace=namespace)

    async def _give_authority(self, namespace: str, authority: str) -> None:
        """Keep the certificate that clients of the API have to trust where pods can mount it.

        Source: Kubernetes 1.36 ``pkg/controller/certificates/rootcacertpublisher/publisher.go``.
        """
        data: Json = {"ca.crt": authority}
        before = self._writer.find(CONFIG_MAPS, namespace, ROOT_AUTHORITY)
        if before is None:
            wanted: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ROOT_AUTHORITY}, "data": data}
            await self._writer.create(CONFIG_MAPS, wanted, namespace=namespace, writer=CONTROLLERS)
        elif v1.mapping(before, "data") != data:
            wanted = {name: each for name, each in before.items() if name != "binaryData"} | {"data": data}
            await self._writer.update(CONFIG_MAPS, before, wanted, writer=CONTROLLERS)

    async def _empty(self, namespace: Json) -> None:
        """Have everything in a namespace deleted, and the namespace itself once nothing is left."""
        name = v1.name(namespace)
        pods = [record for record in self._pods if record.pod.namespace == name]
        for record in pods:
            if record.deletion is None:
                with suppress(PodNotFound):
                    await self._engine.delete(name, record.pod.name)
        for key in [key for key in self._objects.keys() if key.namespace == name]:
            await self._end(key)
        left = Counter(key.qualified for key in self._objects.keys() if key.namespace == name)
        if present := sum(record.pod.namespace == name for record in self._pods):
            left[PODS.plural] = present
        if left:
            await self._tell_what_is_left(name, left)
        else:
            await self._events.leave(name)
            key = key_of(NAMESPACES, namespace)
            if (last := self._objects.get(key)) is not None and is_deleting(last):
                last = await self._objects.replace(key, last | {"spec": {}})
                now = self._objects.get(key)  # a client may have ended it meanwhile, and made another one
                if v1.uid(now) == v1.uid(last) and not v1.texts(now, "metadata", "finalizers"):
                    await self._objects.remove(key)

    async def _tell_what_is_left(self, name: str, left: Mapping[str, int]) -> None:
        if (namespace := self._objects.get(ObjectKey("", NAMESPACES.plural, "", name))) is not None:
            status = v1.mapping(namespace, "status")
            conditions = content_conditions(namespace, left, self._finalizers_in(name), timestamp(self._clock.now()))
            await self._writer.keep_status(NAMESPACES, namespace, status | {"conditions": conditions}, STATUS)

    def _finalizers_in(self, namespace: str) -> Counter[str]:
        """The finalizers of what is in a namespace, with the number of objects that have them."""
        values = (self._objects.get(key) for key in self._objects.keys() if key.namespace == namespace)
        held = Counter(each for value in values for each in v1.texts(value, "metadata", "finalizers"))
        pods = (record.pod for record in self._pods if record.pod.namespace == namespace)
        return held + Counter(each for pod in pods for each in pod.finalizers)

    async def _end(self, key: ObjectKey) -> None:
        """Begin the deletion of an object that may have gone meanwhile."""
        if (value := self._objects.get(key)) is None or is_deleting(value):
            return
        resource = next((each for each in self._resources.of_group(key.group) if each.plural == key.plural), None)
        if resource is None:
            await self._objects.remove(key)
        else:
            await self._writer.delete(resource, value, AT_ONCE)


class _PodChanges:
    """Has namespaces looked after when a pod comes or goes."""

    def __init__(self, due: Changes) -> None:
        self._due = due

    def put(self, change: Change, key: PodUid, record: PodRecord) -> None:
        if change is not Change.MODIFIED:
            self._due.notify()
