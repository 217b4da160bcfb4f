"""The port to container runtimes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, NewType, Protocol

from plugbay.model.edits import NO_EDITS, ContainerEdits, Mount
from plugbay.model.expansion import container_argv, container_command, container_env
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy, default_pull_policy
from plugbay.model.limits import DEFAULT_LIMITS, CgroupLimits
from plugbay.model.pods import Container, EmptyDir, Pod
from plugbay.model.registry_logins import NO_PULL_ACCESS, PullAccess
from plugbay.model.termination import TerminationMessage
from plugbay.runtimes.exec_input import ExecInput
from plugbay.values import dataclass

ContainerId = NewType("ContainerId", str)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container instance to start.

    Attributes:
        container: a container of ``pod``, resolved: its environment holds no references to fields of the pod, and its
            security context is the one that holds for it.
        attempt: 0 for the first start in the pod, one more for each restart.
        limits: what its cgroup is told.
        mounts: its volume mounts; ``host_path`` is where the volume lies.
        edits: what its devices give; their environment stands before the container's own, which wins.
        pull: the logins with which its image is pulled.
    """

    pod: Pod
    container: Container
    attempt: int
    limits: CgroupLimits = DEFAULT_LIMITS
    mounts: tuple[Mount, ...] = ()
    edits: ContainerEdits = NO_EDITS
    pull: PullAccess = NO_PULL_ACCESS

    @property
    def argv(self) -> tuple[str, ...]:
        """Command and args, expanded; empty when the image says what runs."""
        return container_argv(self.container, device_env=self.edits.env)

    @property
    def command(self) -> tuple[str, ...]:
        """The part of ``argv`` that takes the place of the image's entrypoint."""
        return container_command(self.container, device_env=self.edits.env)

    @property
    def env(self) -> Mapping[str, str]:
        """The complete environment that the pod asks for, without the devices' part."""
        return container_env(self.container)

    @property
    def pull_policy(self) -> PullPolicy:
        return self.container.pull_policy or default_pull_policy(self.container.image)

    @property
    def message(self) -> TerminationMessage:
        """The file in which the container leaves a message about its end."""
        return TerminationMessage.of(self.container.message_path, self.container.message_policy)

    @property
    def untrusted_paths(self) -> tuple[str, ...]:
        """Mount points of volumes that the pod alone fills: no set-user-ID program and no device node counts there."""
        names = {each.name for each in self.pod.spec.volumes if isinstance(each.source, EmptyDir)}
        return tuple(each.mount_path for each in self.container.volume_mounts if each.name in names)


class RunState(Enum):
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"
    """The container's process is gone, and its exit code is not known."""
    UNKNOWN = "unknown"
    """The runtime cannot read its state now. It may run, and counts as if it did."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of one container instance.

    Attributes:
        exit_code: 128 + signal number when a signal ended it; None while it runs and when it is lost.
        reason: ``Completed``, ``Error``, ``ContainerStatusUnknown``; empty while it runs. ``StartError`` when its
            command could not be run and no node was there to be told.
        image_id: the runtime's name for the image, with its digest; empty when it runs none.
    """

    id: ContainerId
    pod_uid: PodUid
    name: ContainerName
    attempt: int
    state: RunState
    pid: int | None
    started_at: datetime
    finished_at: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    image_id: str = ""


class ExecStream(Enum):
    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class ExecOutput:
    stream: ExecStream
    chunk: bytes


@dataclass(frozen=True, slots=True)
class ExecExit:
    exit_code: int


class NoticeKind(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that a kubelet would record as an event of a container."""

    kind: NoticeKind
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class LogLines:
    """The lines of a log that are wanted, and how they are shown.

    Attributes:
        since: lines from before are left out; None keeps all.
        are_timed: whether each line begins with its time.
        stream: the stream they were written to; None is both.
    """

    since: datetime | None = None
    are_timed: bool = False
    stream: ExecStream | None = None


ALL_LINES: Final = LogLines()
"""All of a log, as it was written."""


class ContainerRuntime(Protocol):
    """A container runtime. Instances outlive the node's process; `list` finds them again after a restart.

    A method that takes a container's ID, but for `remove`, raises `InstanceNotFound` for an ID that it does not know:
    then nothing of the instance runs. It raises `InstanceUnreadable` when the runtime cannot tell what became of the
    instance, which may run; `remove` does so too.
    """

    name: str

    async def prepare(self, spec: ContainerSpec, tell: Callable[[Notice], None]) -> None:
        """Do the part of a start that may take long, such as fetching an image. Cancelling it does no harm.

        Args:
            spec: still without the edits of devices.
            tell: called with each thing that is done.

        Raises:
            ContainerStartError: the container cannot be prepared.
        """
        ...

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        """Notices about what the container asks for and does not get, though it starts."""
        ...

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """Start an instance; returns when its process runs.

        Raises:
            ContainerStartError: it cannot start; carries the reason a kubelet would show.
        """
        ...

    async def list(self) -> Sequence[ContainerState]:
        """Every instance that was started and not removed, oldest first; those in doubt are `RunState.UNKNOWN`."""
        ...

    async def wait(self, container: ContainerId) -> ContainerState:
        """The state once the instance no longer runs. Cancelling it does no harm."""
        ...

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        """Send SIGTERM, after ``grace_s`` SIGKILL; returns the final state. Harmless when the instance has ended."""
        ...

    async def remove(self, container: ContainerId) -> None:
        """Forget an instance, its log included; kills it first if it runs. Nothing happens when there is none."""
        ...

    def exec(
        self, container: ContainerId, argv: Sequence[str], given: ExecInput | None = None
    ) -> AsyncGenerator[ExecOutput | ExecExit, None]:
        """Run a command in a running instance; the last item is the exit. Closing it kills the command.

        Args:
            given: what the command reads; None is an empty standard input. On a terminal all output is on stdout.

        Raises:
            ExecFailed: the instance does not run, or the command cannot be run.
        """
        ...

    def attach(
        self, container: ContainerId, given: ExecInput, *, gives_input: bool
    ) -> AsyncGenerator[ExecOutput, None]:
        """The output of a running instance from now on, until it ends. Closing it leaves the instance as it is.

        An instance whose input is for one client only gives the first what it has printed before, if the runtime can.

        Args:
            given: the client's side of the instance's standard input; its console is that of the instance.
            gives_input: whether input comes from it.

        Raises:
            ExecFailed: the instance does not run, or no client can be attached.
        """
        ...

    def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None, lines: LogLines = ALL_LINES
    ) -> AsyncGenerator[bytes, None]:
        """The output of the instance on stdout and stderr; with ``follow`` until it ends.

        Args:
            tail: the number of last lines that are looked at.
            lines: those of them that are wanted.
        """
        ...
