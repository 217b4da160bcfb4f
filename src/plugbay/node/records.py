"""What the node knows of a pod and its containers: values, replaced as a whole at each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from plugbay.manager.health import DevicesHealth
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Pod
from plugbay.model.requests import ContainerKind
from plugbay.node.lifecycle import Stage, Step, advance
from plugbay.node.runtimes.port import ContainerId


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str
    message: str = ""


class Startup(Enum):
    """How far a running container has come."""

    POST_START = "post-start"
    """Its hook runs; to everybody else it is still being made."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Running:
    """``image_id``: see `plugbay.node.runtimes.port.ContainerState`."""

    id: ContainerId
    started_at: datetime
    startup: Startup = Startup.DONE
    image_id: str = ""


@dataclass(frozen=True, slots=True)
class Terminated:
    """How one instance ended. ``id`` is None when the runtime never had it; ``image_id`` is as it was in `Running`."""

    id: ContainerId | None
    exit_code: int
    reason: str
    finished_at: datetime
    started_at: datetime | None = None
    message: str = ""
    image_id: str = ""


State = Waiting | Running | Terminated

CANNOT_RUN: Final = frozenset({"StartError", "RunContainerError", "ContainerCannotRun"})
"""Reasons of containers that were made and never ran; with all others nothing was made, and the pod waits."""


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container of a pod.

    Attributes:
        state: of the newest instance, or why there is none.
        last: how the instance before ended; while the container waits, how the newest one ended.
        attempt: number of the newest instance, -1 before the first one.
    """

    kind: ContainerKind
    state: State
    last: Terminated | None = None
    attempt: int = -1

    @property
    def restart_count(self) -> int:
        return max(self.attempt, 0)

    def instances(self) -> frozenset[ContainerId]:
        """The instances it names: the newest one and the one before."""
        states = [state for state in (self.state, self.last) if isinstance(state, Running | Terminated)]
        return frozenset(state.id for state in states if state.id is not None)

    def waiting(self, reason: str, message: str = "") -> ContainerRecord:
        return replace(self, state=Waiting(reason, message), last=self.newest_end())

    def running(self, state: Running, *, attempt: int) -> ContainerRecord:
        return replace(self, state=state, last=self.newest_end(), attempt=attempt)

    def terminated(self, end: Terminated, *, attempt: int) -> ContainerRecord:
        last = self.newest_end() if attempt != self.attempt else self.last
        return replace(self, state=end, last=last, attempt=attempt)

    def newest_end(self) -> Terminated | None:
        """How the newest instance that has ended did."""
        return self.state if isinstance(self.state, Terminated) else self.last


@dataclass(frozen=True, slots=True)
class Deletion:
    """``deadline`` is what v1 calls the deletion timestamp: when the grace period is over."""

    deadline: datetime
    grace_s: int

    @classmethod
    def at(cls, now: datetime, *, grace_s: int) -> Deletion:
        return cls(now + timedelta(seconds=grace_s), grace_s)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the node does not run a pod; ``message`` without the words put before it in a pod's status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pod that ran was made to fail, whatever becomes of its containers."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod.

    Attributes:
        bound_at: when it got its place on the node.
        unschedulable: the scheduler's words, while it has none.
        started_at: when the node took it up.
        health: of the devices it holds, as its status tells; not kept, but asked for again.
        runtime_problem: why nobody knows what its containers do; empty when it is known, and not kept.
        ips: the addresses of its sandbox, ``podIP`` first; not kept, but asked for again.
        has_stopped: nothing of it runs, and nothing will be started again.
        sandbox_since: when its sandbox was ready; None while there is none, or a new one has to be made.
        version: grows with each change of any pod; v1's resource version.
    """

    pod: Pod
    created_at: datetime
    containers: Mapping[ContainerName, ContainerRecord]
    stage: Stage = Stage.UNSCHEDULED
    bound_at: datetime | None = None
    unschedulable: str = ""
    started_at: datetime | None = None
    deletion: Deletion | None = None
    rejection: Rejection | None = None
    failure: Failure | None = None
    health: DevicesHealth = field(default_factory=dict)
    ips: tuple[str, ...] = ()
    runtime_problem: str = ""
    sandbox_since: datetime | None = None
    has_stopped: bool = False
    version: int = field(default=0, compare=False)

    @property
    def uid(self) -> PodUid:
        return self.pod.uid

    @property
    def full_name(self) -> str:
        """As kubelets write it in messages: ``name_namespace(uid)``."""
        return f"{self.pod.name}_{self.pod.namespace}({self.uid})"

    def after(self, step: Step) -> PodRecord:
        stage = advance(self.stage, step)
        return replace(self, stage=stage, has_stopped=self.has_stopped or stage is Stage.ENDED)

    def with_container(self, name: ContainerName, container: ContainerRecord) -> PodRecord:
        return replace(self, containers={**self.containers, name: container})

    def running(self) -> dict[ContainerName, Running]:
        """The containers that run, in start order."""
        return {name: each.state for name, each in self.containers.items() if isinstance(each.state, Running)}


def waiting_reason(pod: Pod) -> str:
    """Why the containers of a pod do not run while nothing has gone wrong."""
    return "PodInitializing" if pod.spec.init_containers else "ContainerCreating"


def new_record(pod: Pod, *, created_at: datetime) -> PodRecord:
    """A pod nothing has happened to yet."""
    waiting = Waiting(waiting_reason(pod))
    containers = {each.name: ContainerRecord(each.kind, waiting) for each in pod.spec.all_containers}
    return PodRecord(pod, created_at, containers)
