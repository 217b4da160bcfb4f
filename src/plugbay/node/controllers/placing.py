"""The stored objects by which pods are placed, and the lease by which a node says that it lives."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from plugbay.documents import Json
from plugbay.errors import StoreUnusable
from plugbay.model.placement import PreemptionPolicy
from plugbay.node.api.objects import NodeFacts
from plugbay.node.api.stored.accounts.identity import LEASES
from plugbay.node.api.stored.namespaces import NAMESPACES
from plugbay.node.api.stored.priorities import PRIORITY_CLASSES
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.clock import Clock
from plugbay.pods.scheduling.constraints import own_label
from plugbay.pods.scheduling.defaults import BUILT_IN_CLASSES, PriorityClass
from plugbay.printers import v1

logger = logging.getLogger(__name__)

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_S: Final = 40
"""A kubelet's lease lasts so long."""
RENEWAL_S: Final = 10.0
_ABOUT: Final = {
    "system-cluster-critical": "Pods that the cluster cannot do without, on whichever node.",
    "system-node-critical": "Pods that the node cannot do without.",
}


def priority_classes(objects: ObjectTable) -> Mapping[str, PriorityClass]:
    """The classes that pods may name; the built-in ones are there whatever becomes of their objects."""
    stored = objects.of(PRIORITY_CLASSES.group, PRIORITY_CLASSES.plural)
    return {v1.name(each): _class(each) for each in stored} | dict(BUILT_IN_CLASSES)


def _class(value: Json) -> PriorityClass:
    policy = PreemptionPolicy(v1.text(value, "preemptionPolicy") or PreemptionPolicy.LOWER.value)
    is_default = v1.at(value, "globalDefault") is True
    return PriorityClass(v1.name(value), v1.number(value, "value"), policy, is_default=is_default)


def namespace_labels(objects: ObjectTable, namespace: str) -> Mapping[str, str]:
    """The labels of a namespace."""
    found = objects.get(ObjectKey(NAMESPACES.group, NAMESPACES.plural, "", namespace))
    labels = {name: str(text) for name, text in v1.mapping(found, "metadata", "labels").items()}
    return labels | dict(own_label(namespace))


async def make_built_in_classes(writer: ObjectWriter) -> None:
    """Make the objects of the built-in priority classes, where they are missing."""
    for name, each in BUILT_IN_CLASSES.items():
        if writer.find(PRIORITY_CLASSES, "", name) is None:
            head: Json = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
            await writer.create(
                PRIORITY_CLASSES,
                {**head, "metadata": {"name": name}, "value": each.value, "description": _ABOUT[name]},
                namespace="",
            )


class NodeLease:
    """Renews the node's lease every ten seconds, as a kubelet does.

    Source: kubelet 1.36 ``component-helpers/apimachinery/lease/controller.go``.
    """

    def __init__(self, facts: NodeFacts, objects: ObjectTable, writer: ObjectWriter, clock: Clock) -> None:
        self._facts = facts
        self._objects = objects
        self._writer = writer
        self._clock = clock
        self._key = ObjectKey(LEASES.group, LEASES.plural, LEASE_NAMESPACE, facts.name)

    async def run(self) -> None:
        """Renew it until cancelled."""
        while True:
            try:
                await self._renew()
            except StoreUnusable as error:
                logger.warning("cannot renew the lease of the node: %s", error)
            await self._clock.sleep(RENEWAL_S)

    async def _renew(self) -> None:
        if self._objects.get(ObjectKey(NAMESPACES.group, NAMESPACES.plural, "", LEASE_NAMESPACE)) is None:
            return
        name = self._facts.name
        spec: Json = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": _micro_time(self._clock.now()),
        }
        there = self._objects.get(self._key)
        if there is not None:
            await self._objects.replace(self._key, there | {"spec": spec})
            return
        owner: Json = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._facts.uid}
        metadata: Json = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        lease: Json = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        await self._writer.create(LEASES, lease, namespace=LEASE_NAMESPACE)


def _micro_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
