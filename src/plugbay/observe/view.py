"""A node at one moment, as far as it could be read: frozen values. Pure.

Texts are as their sources have them, hostile ones included: whatever prints them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Final

from plugbay.values import dataclass


class Witness(Enum):
    """A source of knowledge about a node; the value is the word for users."""

    CHECKPOINT = "checkpoint"
    POD_RESOURCES = "podresources"
    NODE = "node"
    PLUGIN = "plugin"
    PODS = "pods"
    SOCKETS = "sockets"
    CPUS = "cpus"


NEEDED: Final = frozenset({Witness.CHECKPOINT, Witness.POD_RESOURCES})
"""A view without one of these is partial; the others only add to it."""


@dataclass(frozen=True, slots=True)
class ReadingProblem:
    """A source that could not be read, in one sentence.

    Attributes:
        is_lasting: it cannot tell this at all, as an old kubelet: trying again is of no use, and nothing is partial.
    """

    witness: Witness
    sentence: str
    is_lasting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHolder:
    """A container that holds a device; what is not known is empty.

    Attributes:
        since: when the kubelet set the pod up, at the latest.
        requested_by: what made the pod, such as ``ReplicaSet/web`` or ``a static manifest``.
        witnesses: those that say that it holds the device.
    """

    container: str
    pod: str = ""
    namespace: str = ""
    uid: str = ""
    since: datetime | None = None
    requested_by: str = ""
    witnesses: frozenset[Witness] = frozenset()

    def __str__(self) -> str:
        keys = (self.namespace, self.pod, self.container) if self.pod else (self.uid, self.container)
        return "/".join(filter(None, keys))


class HealthWord(Enum):
    """A device's health in a kubelet's words."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """A device's health, with reason and message where its plugin or our node tells them.

    Attributes:
        since: when it came to this health.
        witness: what says so; None while nothing does.
    """

    word: HealthWord = HealthWord.UNKNOWN
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    witness: Witness | None = None

    def __str__(self) -> str:
        return f"{self.word.value}: {self.reason}" if self.reason else self.word.value


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceView:
    """One device of a resource.

    Attributes:
        numa_nodes: None when nothing tells a topology.
        host_paths: its device nodes on the host, where known.
        holders: the containers that hold it; several are an init container and one after it, or a disagreement.
        is_releasing: its plugin has not confirmed yet that the last use has ended.
        disagreements: what sources say against each other about its holder, in sentences.
    """

    id: str
    health: DeviceHealth = DeviceHealth()
    numa_nodes: tuple[int, ...] | None = None
    host_paths: tuple[str, ...] = ()
    holders: tuple[DeviceHolder, ...] = ()
    is_releasing: bool = False
    disagreements: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        return bool(self.holders)


@dataclass(frozen=True, slots=True)
class PluginMoment:
    """A moment in the life of a plugin, such as a registration or the end of a stream.

    Attributes:
        text: a few words.
        socket: the name of the socket that it is about; empty for the resource as a whole.
    """

    at: datetime
    text: str
    socket: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginView:
    """The plugin of a resource, as our node or the plugin itself tells.

    Attributes:
        state: in the words of its witness, such as ``Live`` or ``streaming``.
        since: when it came to its state.
        registered: when a kubelet last took its registration; None when nothing tells it.
        registrations: how often it has registered; None when nothing tells it.
        open_streams: how many streams of its devices are open; None when nothing tells it.
        life: registrations and streams that are known, oldest first.
    """

    state: str
    socket: str = ""
    since: datetime | None = None
    registered: datetime | None = None
    reason: str = ""
    registrations: int | None = None
    open_streams: int | None = None
    life: tuple[PluginMoment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceView:
    """One resource with its devices, sorted by ID.

    Attributes:
        capacity: of healthy and unhealthy devices; None when nothing tells it, as with a stock kubelet alone.
        allocatable: of healthy devices; None when nothing tells it.
    """

    name: str
    capacity: int | None = None
    allocatable: int | None = None
    devices: tuple[DeviceView, ...] = ()
    plugin: PluginView | None = None

    @property
    def allocated(self) -> int:
        return sum(device.is_held for device in self.devices)

    @property
    def unhealthy(self) -> int:
        return sum(device.health.word is HealthWord.UNHEALTHY for device in self.devices)

    @property
    def free(self) -> int | None:
        """Devices that a new pod could get; None when allocatable is not known."""
        if self.allocatable is None:
            return None
        unusable = (device.is_held or device.is_releasing for device in self._healthy())
        return max(0, self.allocatable - sum(unusable))

    def _healthy(self) -> Iterator[DeviceView]:
        return (device for device in self.devices if device.health.word is HealthWord.HEALTHY)


class SocketState(Enum):
    """The result of a connection to a socket's file."""

    LISTENING = "a process listens"
    DEAD = "no process listens"
    FULL = "its queue of connections is full: the process that listens does not accept any"
    CLOSED = "closed to this user"


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketView:
    """A socket in the device-plugins directory.

    Attributes:
        made: when its file was made: a plugin makes it right before it registers.
        pid: of the process that listens; None when none does, 0 when it cannot be seen from here.
        command: the name of that process, if it can be seen.
        problem: why it cannot be told whether a process listens.
    """

    name: str
    made: datetime | None = None
    pid: int | None = None
    command: str = ""
    problem: str = ""

    @property
    def is_listening(self) -> bool:
        return self.pid is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveUse:
    """CPUs and memory that one container has to itself; memory in bytes by type.

    A holder without a container is a pod: containers of it share them with each other, and with no other pod.
    """

    holder: DeviceHolder
    cpus: tuple[int, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusiveView:
    """CPUs and memory that containers have to themselves, against all that pods can have.

    Attributes:
        allocatable_cpus: None when nothing tells.
        allocatable_memory: bytes by type; None when nothing tells.
        uses: None when it is not known which containers have CPUs, or if the kubelet does not manage them.
    """

    allocatable_cpus: tuple[int, ...] | None = None
    allocatable_memory: Mapping[str, int] | None = None
    uses: tuple[ExclusiveUse, ...] | None = None

    @property
    def shared_cpus(self) -> tuple[int, ...] | None:
        """The shared pool: what no container has to itself."""
        if self.allocatable_cpus is None or self.uses is None:
            return None
        exclusive = {cpu for use in self.uses for cpu in use.cpus}
        return tuple(sorted(set(self.allocatable_cpus) - exclusive))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """The checkpoint file.

    Attributes:
        written: when; None when there is no file that can be seen.
        problem: why a kubelet would not load it, or why it cannot be read; empty for a good file.
    """

    path: str
    written: datetime | None = None
    problem: str = ""

    @property
    def is_valid(self) -> bool:
        return self.written is not None and not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPod:
    """A pod that the node did not admit, as our node tells it, until it is deleted.

    Attributes:
        at: when it was rejected.
        reason: such as ``UnexpectedAdmissionError``.
    """

    namespace: str
    pod: str
    uid: str
    reason: str
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """All that could be read of a node.

    Attributes:
        taken: when it was read.
        root: the kubelet's root.
        name: the node's name by our node, else by that of the host; empty where it cannot be told.
        rejections: the number of pods that were not admitted, by reason; None when nothing tells.
        rejected: those of them that are not deleted yet, oldest first.
        problems: sources that could not be read.
    """

    taken: datetime
    root: str
    name: str = ""
    resources: tuple[ResourceView, ...] = ()
    sockets: tuple[SocketView, ...] = ()
    exclusive: ExclusiveView = ExclusiveView()
    checkpoint: CheckpointFile | None = None
    rejections: Mapping[str, int] | None = None
    rejected: tuple[RejectedPod, ...] = ()
    problems: tuple[ReadingProblem, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether a source is missing that knows of holders."""
        return any(problem.witness in NEEDED and not problem.is_lasting for problem in self.problems)
