"""Pods, the node, lists and errors as v1 objects made of plain JSON values: pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from plugbay.documents import Json
from plugbay.manifest import pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults
from plugbay.model.ids import ResourceName
from plugbay.model.nodes import NodeInput, well_known_labels
from plugbay.model.taints import UNSCHEDULABLE_KEY, Taint
from plugbay.pods.node import Machine, RuntimeHealth
from plugbay.pods.record import PodRecord
from plugbay.pods.status import HOST_IP, pod_status, timestamp
from plugbay.values import dataclass


def pod_object(record: PodRecord, *, runtime: str) -> Json:
    """The v1 Pod; ``runtime`` is the scheme of container IDs."""
    pod = with_pod_defaults(pod_to_v1(record.pod))
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    metadata["creationTimestamp"] = timestamp(record.created_at)
    if record.version:  # that of a dry run is not kept
        metadata["resourceVersion"] = str(record.version)
    if record.managed:
        metadata["managedFields"] = list(record.managed)
    if record.deletion is not None:
        metadata["deletionTimestamp"] = timestamp(record.deletion.deadline)
        metadata["deletionGracePeriodSeconds"] = record.deletion.grace_s
    return pod | {"status": pod_status(record, runtime=runtime)}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about a node that do not change while it runs.

    Attributes:
        version: plugbay's.
        runtime_version: the version of the engine that runs the containers; empty where plugbay itself runs them.
    """

    name: str
    uid: str
    machine: Machine
    runtime: str
    version: str
    runtime_version: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Resources:
    """The plugins' resources of the node, as the manager counts them."""

    capacity: Mapping[ResourceName, int]
    allocatable: Mapping[ResourceName, int]


def node_object(facts: NodeFacts, resources: Resources, *, settings: NodeInput, runtime: RuntimeHealth) -> Json:
    """The v1 Node. A resource whose plugin has gone for good stays, with 0 (device manager spec 10)."""
    own = _own_amounts(facts.machine.capacity)
    since = timestamp(facts.started_at)
    ready = {
        "type": "Ready",
        "status": "False" if runtime.problem else "True",
        "reason": "KubeletNotReady" if runtime.problem else "KubeletReady",
        "message": f"container runtime is down: {runtime.problem}"
        if runtime.problem
        else "plugbay node is posting ready status",
        "lastHeartbeatTime": since,
        "lastTransitionTime": timestamp(runtime.since) if runtime.since else since,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": facts.name,
            "uid": facts.uid,
            "creationTimestamp": timestamp(settings.registered_at or facts.started_at),
            "labels": dict(sorted({**settings.labels, **node_labels(facts)}.items())),
            **({"annotations": dict(settings.annotations)} if settings.annotations else {}),
            **({"managedFields": [dict(each) for each in settings.managed]} if settings.managed else {}),
        },
        "spec": _node_spec(settings),
        "status": {
            "capacity": own | _amounts(settings.extended, resources.capacity),
            "allocatable": own | _amounts(settings.extended, resources.allocatable),
            "conditions": [*map(dict, settings.conditions.values()), ready],
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": facts.name}],
            "nodeInfo": {
                "architecture": facts.machine.architecture,
                "bootID": facts.machine.ids.boot,
                "containerRuntimeVersion": f"{facts.runtime}://{facts.runtime_version or facts.version}",
                "kernelVersion": facts.machine.kernel,
                "kubeProxyVersion": "",
                "kubeletVersion": f"plugbay-{facts.version}",
                "machineID": facts.machine.ids.machine,
                "operatingSystem": "linux",
                "osImage": facts.machine.os_image,
                "systemUUID": facts.machine.ids.system,
            },
        },
    }


def node_labels(facts: NodeFacts) -> dict[str, str]:
    """The labels that the node gives itself."""
    return well_known_labels(facts.name, facts.machine.architecture)


def _node_spec(settings: NodeInput) -> Json:
    taints = [_taint_object(each) for each in settings.taints]
    if (since := settings.cordoned_since) is None:
        return {"taints": taints} if taints else {}
    cordon = {"key": UNSCHEDULABLE_KEY, "effect": "NoSchedule", "timeAdded": timestamp(since)}
    return {"unschedulable": True, "taints": [*taints, cordon]}


def _taint_object(taint: Taint) -> Json:
    named = {"key": taint.key, "value": taint.value, "effect": taint.effect.value, "timeAdded": taint.added}
    return {name: text for name, text in named.items() if text}


def _amounts(advertised: Mapping[str, int], counted: Mapping[ResourceName, int]) -> Json:
    """A plugin's count goes before what clients advertise of the same resource."""
    counts = dict(advertised) | {str(name): count for name, count in counted.items()}
    return {name: str(count) for name, count in sorted(counts.items())}


def _own_amounts(capacity: Mapping[str, int]) -> dict[str, object]:
    return {
        "cpu": str(capacity["cpu"] // 1000),
        "ephemeral-storage": f"{capacity['ephemeral-storage'] // 1024}Ki",
        "memory": f"{capacity['memory'] // 1024}Ki",
        "pods": str(capacity["pods"]),
    }
