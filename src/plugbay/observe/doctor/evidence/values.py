"""The values that a node is judged by. Pure.

Paths are texts, as the host names them. A value that could not be read is empty, and a `Gap` says so: a check that
needs what is missing is told as incomplete, never as passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from plugbay.model.edits import ContainerEdits
from plugbay.observe.doctor.evidence.machine_values import (
    CniSight,
    EngineSight,
    MachineSight,
    SpecSight,
)
from plugbay.observe.view import SocketState


class EvidenceSource(Enum):
    """A thing that is read; the values are its names in sentences."""

    DIRECTORIES = "the kubelet's directories"
    SOCKETS = "the sockets of plugins and kubelet"
    ANSWERS = "what plugins answer"
    LISTENERS = "the kernel's lists of listening sockets"
    CHECKPOINT = "the checkpoint"
    POD_RESOURCES = "the PodResources service"
    HOLDINGS = "which devices each pod holds by PodResources"
    PODS = "the directories of pods"
    HAPPENINGS = "events, and the kubelet's log"
    OBJECTS = "the objects of pods and of the node"
    SETTINGS = "the kubelet's configuration"
    CDI = "the CDI specs"
    ENGINE = "the container engine's configuration"
    CNI = "the CNI configuration"
    GIVEN = "the device nodes and files that containers were given"
    LIMITS = "the limits of the machine"
    DISKS = "the file systems"
    SECURITY = "the labels and denials of security modules"
    JOURNALS = "the journals of plugins"


DAMAGED: Final = "damaged"
"""Stands for the policy of a resource manager whose state file is not JSON."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be read: ``what`` is a path or a call, ``why`` a clause."""

    source: EvidenceSource
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class Answer(Enum):
    """The fate of a harmless call to a plugin."""

    NOT_ASKED = "not asked"
    ANSWERED = "answered"
    SILENT = "no answer in time"


@dataclass(frozen=True, slots=True)
class SocketSight:
    """A socket's file.

    Attributes:
        changed_s: when it was made, in seconds since 1970.
        pid: of the process that listens; 0 if it is not seen from here.
        process: the name of that process.
        answer: to GetDevicePluginOptions or GetInfo.
        resource: the resource that the plugin names by GetInfo, or that our plugins' file names tell; else empty.
    """

    path: str
    state: SocketState
    mode: int = 0o600
    uid: int = 0
    changed_s: float = 0
    pid: int = 0
    process: str = ""
    answer: Answer = Answer.NOT_ASKED
    resource: str = ""
    problem: str = ""

    @property
    def by(self) -> str:
        """The process that listens, as a clause; empty if it is not known."""
        return f"process {self.pid} ({self.process or '?'})" if self.pid else ""


@dataclass(frozen=True, slots=True)
class LostListener:
    """A process that listens at a socket whose file is gone."""

    path: str
    pid: int
    process: str


@dataclass(frozen=True, slots=True)
class DirectorySight:
    """A directory; without `is_there` the rest means nothing."""

    path: str
    is_there: bool
    mode: int = 0o755
    uid: int = 0
    label: str = ""


class CheckpointState(Enum):
    VALID = "valid"
    MISSING = "missing"
    CORRUPT = "corrupt"
    OLD = "of kubelet 1.19 or older"
    UNREAD = "could not be read"


@dataclass(frozen=True, slots=True)
class CheckpointHolding:
    """Devices of one resource that a container holds. ``edits`` is None when the plugin's answer cannot be decoded."""

    pod_uid: str
    container: str
    resource: str
    devices: tuple[str, ...]
    edits: ContainerEdits | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSight:
    """``kubelet_internal_checkpoint``.

    Attributes:
        problem: why it is not valid.
        registered: the healthy devices of each resource at the time of writing.
        unfinished: files that writers left, which were killed.
    """

    path: str
    state: CheckpointState = CheckpointState.MISSING
    problem: str = ""
    mode: int = 0o600
    changed_s: float = 0
    entries: tuple[CheckpointHolding, ...] = ()
    registered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResourcesSight:
    """The answers of PodResources.

    Attributes:
        allocatable: the healthy devices of each resource; None if the call failed.
        held: by (namespace, pod), the devices of each container by resource; None if it was not asked.
        call: how pods were asked for: ``List`` or ``Get``.
        is_late: a call was not answered in time.
    """

    allocatable: Mapping[str, frozenset[str]] | None = None
    held: Mapping[tuple[str, str], Mapping[str, Mapping[str, frozenset[str]]]] | None = None
    call: str = ""
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ContainerSight:
    """A container of a pod's object. ``user`` is None where the object does not say."""

    name: str
    user: int | None = None
    groups: tuple[int, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    waiting: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodSight:
    """A pod, from its object, its directory or its logs; what is not known is empty.

    Attributes:
        has_directory: the kubelet keeps a directory for it.
        deleting_since_s: when it should have ended at the latest, in seconds since 1970; None if it is not deleted.
    """

    uid: str
    namespace: str = ""
    name: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    deleting_since_s: float | None = None
    containers: tuple[ContainerSight, ...] = ()
    has_directory: bool = False

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else self.uid


@dataclass(frozen=True, slots=True)
class PodHappening:
    """An event, or a line of the kubelet's log. ``pod`` is ``NAMESPACE/NAME``, empty if it is about none."""

    source: str
    reason: str
    message: str
    pod: str = ""
    uid: str = ""
    count: int = 1
    at: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSight:
    """A device as its kubelet, our node, knows it."""

    id: str
    health: str
    reason: str = ""
    holder: str = ""
    is_releasing: bool = False


@dataclass(frozen=True, slots=True)
class ToldResource:
    """A resource as the node's object or our node's API tells it.

    Attributes:
        plugin: the state of its plugin: Live, Stopped, Restored; empty where it is not told.
        devices: of our node only.
    """

    name: str
    capacity: int
    allocatable: int
    source: str
    plugin: str = ""
    since: str = ""
    devices: tuple[DeviceSight, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseSight:
    """A call for the release of devices that our node's plugin has not confirmed."""

    resource: str
    devices: tuple[str, ...]
    pod: str
    since: str
    attempts: int


@dataclass(frozen=True, slots=True)
class KubeletEvidence:
    """The kubelet itself.

    Attributes:
        is_ours: it is a node of plugbay.
        version: such as ``1.30.2``; empty if nothing tells it.
        version_from: where that was read.
        arguments: of its process; empty if that is not seen.
        settings: its configuration file.
        settings_path: where that is; empty if there is none.
        managers: by ``cpu_manager_state`` and ``memory_manager_state``, the policy that the file was written under,
            or `DAMAGED`.
        runtime: the runtime of our node: ``process``, ``oci``, ``containerd``; else empty.
    """

    root: str
    is_ours: bool = False
    version: str = ""
    version_from: str = ""
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    settings_path: str = ""
    managers: Mapping[str, str] = field(default_factory=dict)
    runtime: str = ""
    other_root: str = ""


@dataclass(frozen=True, slots=True)
class JournalSight:
    """A plugin's journal of uses."""

    path: str
    resource: str
    has_uses: bool
    changed_s: float


@dataclass(frozen=True, slots=True)
class Examined:
    """All that was read about a node."""

    kubelet: KubeletEvidence
    plugins: DirectorySight
    registry: DirectorySight
    registration: SocketSight | None = None
    pod_resources_socket: SocketSight | None = None
    sockets: tuple[SocketSight, ...] = ()
    registry_sockets: tuple[SocketSight, ...] = ()
    lost_listeners: tuple[LostListener, ...] = ()
    checkpoint: CheckpointSight = field(default_factory=lambda: CheckpointSight(""))
    pod_resources: PodResourcesSight = field(default_factory=PodResourcesSight)
    pods: tuple[PodSight, ...] = ()
    happenings: tuple[PodHappening, ...] = ()
    resources: tuple[ToldResource, ...] = ()
    releases: tuple[ReleaseSight, ...] = ()
    specs: SpecSight = field(default_factory=SpecSight)
    engine: EngineSight | None = None
    cni: CniSight = field(default_factory=CniSight)
    machine: MachineSight = field(default_factory=MachineSight)
    journals: tuple[JournalSight, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def is_unread(self, *paths: str) -> bool:
        """Whether one of these could not be looked at."""
        return any(gap.what in paths for gap in self.gaps)

    def pod(self, uid: str) -> PodSight | None:
        """The pod with this UID."""
        return next((each for each in self.pods if each.uid == uid), None)

    def pod_title(self, uid: str) -> str:
        """The pod's name, or its UID where that is all there is."""
        pod = self.pod(uid)
        return pod.title if pod else uid


def option(arguments: tuple[str, ...], name: str) -> str:
    """The value of ``--name VALUE`` or ``--name=VALUE``; the last one counts; empty if there is none."""
    found = ""
    for at, word in enumerate(arguments):
        if word == f"--{name}" and at + 1 < len(arguments):
            found = arguments[at + 1]
        elif word.startswith(f"--{name}="):
            found = word.partition("=")[2]
    return found
