"""The summary of a node's statistics, as a kubelet tells it at ``/stats/summary``. Pure.

It has what the node itself knows: the machine's use, and the pods and containers that run, without their own use.

Source: Kubernetes 1.36 ``kubelet/pkg/apis/stats/v1alpha1/types.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from plugbay.documents import Json
from plugbay.kernel.usage import FileSystemUsage, MachineUsage
from plugbay.node.api.objects import NodeFacts
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord, Running
from plugbay.pods.status import timestamp


def summary_object(
    facts: NodeFacts, usage: MachineUsage, files: FileSystemUsage, pods: Iterable[PodRecord], *, now: datetime
) -> Json:
    """The Summary; ``files`` is the file system of the pods' volumes."""
    time = timestamp(now)
    return {
        "node": {
            "nodeName": facts.name,
            "startTime": timestamp(facts.started_at),
            "cpu": {"time": time, "usageCoreNanoSeconds": usage.cpu_ns},
            "memory": {
                "time": time,
                "availableBytes": usage.memory - usage.working_set,
                "usageBytes": usage.memory_used,
                "workingSetBytes": usage.working_set,
                "rssBytes": usage.resident,
            },
            "fs": {
                "time": time,
                "availableBytes": files.available,
                "capacityBytes": files.capacity,
                "usedBytes": files.used,
                "inodesFree": files.inodes_free,
                "inodes": files.inodes,
                "inodesUsed": files.inodes - files.inodes_free,
            },
        },
        "pods": [_pod(each) for each in pods if each.stage in (PodStage.ACTIVE, PodStage.TERMINATING)],
    }


def _pod(record: PodRecord) -> Json:
    return {
        "podRef": {"name": record.pod.name, "namespace": record.pod.namespace, "uid": record.pod.uid},
        "startTime": timestamp(record.started_at or record.created_at),
        "containers": [
            {"name": name, "startTime": timestamp(state.state.started_at)}
            for name, state in record.containers.items()
            if isinstance(state.state, Running)
        ],
    }
