"""The answers of all sources on a node, before they are joined. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from plugbay.documents import Json
from plugbay.model.podresources import AllocatableResources, PodResources
from plugbay.observe.view import CheckpointFile, ReadingProblem, SocketView
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Devices of one resource that one container holds, by the checkpoint.

    Attributes:
        devices: by NUMA node, -1 for none.
        host_paths: the device nodes that the plugin answered with.
    """

    uid: str
    container: str
    resource: str
    devices: Mapping[int, tuple[str, ...]]
    host_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEvidence:
    """A checkpoint file and what it says.

    Attributes:
        entries: None when the file says nothing that can be relied on.
        registered: healthy devices by resource, when the file was written.
    """

    file: CheckpointFile
    entries: tuple[CheckpointEntry, ...] | None = None
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPod:
    """A pod that has a directory on the node; what that does not tell is empty."""

    namespace: str = ""
    name: str = ""
    since: datetime | None = None
    requested_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvidence:
    """All answers.

    Attributes:
        host_name: of the machine; empty where it cannot be told.
        pods: of PodResources; None when it was not asked, or did not answer.
        only_pod: namespace and name of the pod that was asked for, when ``pods`` has no other.
        allocatable: as ``pods``.
        known_pods: by UID.
        node: our own node's answer about devices; None for any other kubelet.
        plugins: the ``/status`` of our plugins.
        exclusive_cpus: by UID and container, from the CPU manager's file; None without one. CPUs of a pod as a whole
            are those of a container without a name.
    """

    taken: datetime
    root: str
    checkpoint: CheckpointEvidence
    host_name: str = ""
    pods: tuple[PodResources, ...] | None = None
    only_pod: tuple[str, str] | None = None
    allocatable: AllocatableResources | None = None
    known_pods: Mapping[str, KnownPod] = field(default_factory=dict)
    node: Json | None = None
    plugins: tuple[Json, ...] = ()
    sockets: tuple[SocketView, ...] = ()
    exclusive_cpus: Mapping[tuple[str, str], tuple[int, ...]] | None = None
    problems: tuple[ReadingProblem, ...] = ()
