"""What the node asks of a container runtime, whichever it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, NewType, Protocol, runtime_checkable

from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.images import PullPolicy
from plugbay.model.limits import DEFAULT_LIMITS, CgroupLimits
from plugbay.model.pods import DEFAULT_GRACE_PERIOD_S
from plugbay.model.ports import ContainerPort
from plugbay.model.security import DEFAULT_SECURITY, Security
from plugbay.model.termination import DEFAULT_MESSAGE, TerminationMessage
from plugbay.node.runtimes.exec_input import ExecInput

ContainerId = NewType("ContainerId", str)


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container instance to start.

    Attributes:
        attempt: 0 for the first start in the pod, one more for each restart.
        argv: command and args, already expanded; empty when the image says what runs.
        command: the part of ``argv`` that takes the place of the image's entrypoint.
        env: the complete environment the pod asks for, without the devices' part.
        mounts: volume mounts; ``host_path`` is where the volume lies.
        untrusted_paths: where in the container volumes are mounted that its pod alone fills: no set-user-ID program and
            no device node counts there.
        edits: what the devices give; its env stands before ``env``, which wins.
        hostname: empty is the pod's name.
        runtime_class: the pod's ``runtimeClassName``.
        qos: the pod's quality of service class.
        memory_request: in bytes.
        grace_period_s: the pod's.
        message: where it leaves word of its end.
        ports: its own, as they are told to those who look at it; the sandbox's are those that are mapped.
        pre_stop: its hook as v1 JSON, told to those who look at it; running it is not the runtime's business.
    """

    pod_uid: PodUid
    namespace: str
    pod: str
    name: ContainerName
    attempt: int
    image: str
    argv: tuple[str, ...]
    working_dir: str | None
    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    edits: ContainerEdits
    hostname: str = ""
    security: Security = DEFAULT_SECURITY
    limits: CgroupLimits = DEFAULT_LIMITS
    runtime_class: str = ""
    command: tuple[str, ...] = ()
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    qos: str = "BestEffort"
    memory_request: int = 0
    grace_period_s: int = DEFAULT_GRACE_PERIOD_S
    message: TerminationMessage = DEFAULT_MESSAGE
    ports: tuple[ContainerPort, ...] = ()
    pre_stop: str = ""
    untrusted_paths: tuple[str, ...] = ()


class RunState(Enum):
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"
    """Its process is gone, and how it ended is not known."""
    UNKNOWN = "unknown"
    """What the runtime knows of it cannot be read now. It may run, and counts as if it did."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What the runtime knows of one container instance.

    Attributes:
        exit_code: 128 + signal number when a signal ended it; None while it runs and when it is lost.
        reason: ``Completed``, ``Error``, ``ContainerStatusUnknown``; empty while it runs. ``StartError`` when its
            command could not be run and no node was there to be told.
        image_id: what the runtime calls the image it runs, by its digest; empty when it runs none.
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
    """What a kubelet would record as an event of a container."""

    kind: NoticeKind
    reason: str
    message: str


class ContainerRuntime(Protocol):
    """A container runtime. Instances outlive the node's process; `list` finds them again after a restart.

    All but `prepare`, `start`, `list` and `remove` raise `InstanceNotFound` for an ID they do not know. All but
    `prepare`, `start` and `list` raise `InstanceUnreadable` when the runtime cannot tell what became of an instance:
    then it may run. `InstanceNotFound` says that nothing of it runs.
    """

    name: str

    async def prepare(self, spec: ContainerSpec, tell: Callable[[Notice], None]) -> None:
        """What has to be done before `start` and may take long, such as fetching an image. Cancelling it does no harm.

        Args:
            spec: still without what devices give.
            tell: is told what is done.

        Raises:
            ContainerStartError: it cannot be done.
        """
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
        """SIGTERM, after ``grace_s`` SIGKILL; returns the final state. Harmless when it has ended."""
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

    def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """What the instance wrote to stdout and stderr; with ``follow`` until it ends."""
        ...


@dataclass(frozen=True, slots=True)
class LogTimes:
    """What is wanted of the times at which an instance wrote.

    Attributes:
        since: nothing from before; None is all.
        are_shown: whether each line begins with its time.
    """

    since: datetime | None = None
    are_shown: bool = False


UNTIMED: Final = LogTimes()
"""All of a log, as it was written."""


@runtime_checkable
class KeepsLogTimes(Protocol):
    """A runtime that knows when an instance wrote what."""

    def timed_log(
        self, container: ContainerId, times: LogTimes, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """As `ContainerRuntime.log`; of the last ``tail`` lines those that are wanted."""
        ...


@runtime_checkable
class HasShortcomings(Protocol):
    """A runtime that cannot do all that a pod may ask for, and starts it all the same."""

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        """What the container asks for and does not get."""
        ...
