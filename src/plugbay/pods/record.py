"""The record of a pod and its containers: values that are replaced as a whole at each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from plugbay.documents import Json
from plugbay.manager.serving.snapshot import DevicesHealth
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, RestartPolicy
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import PodStage, PodStep, advance
from plugbay.runtimes.port import ContainerId, ContainerState, RunState
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    reason: str
    message: str = ""


class Startup(Enum):
    """How far a running container has come."""

    POST_START = "post-start"
    """The container's hook runs; its status still says that the container is being made."""
    PROBED = "probed"
    """The startup probe has not succeeded yet."""
    UNREADY = "unready"
    """The container has started; its readiness probe has not succeeded yet, or failed after that."""
    DONE = "done"
    """The container has started and is ready."""


STARTED: Final = frozenset({Startup.UNREADY, Startup.DONE})
"""The steps at which a container's status says ``started``."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running instance.

    Attributes:
        image_id: see `plugbay.runtimes.port.ContainerState`.
        changed_at: the moment at which a probe changed ``startup`` last; None when none has.
        image: the image that the pod named when it was started; None where an earlier version did not keep it.
    """

    id: ContainerId
    started_at: datetime
    startup: Startup = Startup.DONE
    image_id: str = ""
    changed_at: datetime | None = None
    image: str | None = None

    @property
    def has_started(self) -> bool:
        return self.startup in STARTED

    @property
    def since(self) -> datetime:
        """The moment since which it is as ready, or as little ready, as it is."""
        return self.changed_at or self.started_at

    def at(self, startup: Startup, *, now: datetime) -> Running:
        """Itself at another step; nothing changes if that is where it is."""
        return self if startup is self.startup else replace(self, startup=startup, changed_at=now)


@dataclass(frozen=True, slots=True)
class Terminated:
    """The end of one instance. ``id`` is None when the runtime never had it; ``image_id`` is that of `Running`."""

    id: ContainerId | None
    exit_code: int
    reason: str
    finished_at: datetime
    started_at: datetime | None = None
    message: str = ""
    image_id: str = ""


State = Waiting | Running | Terminated

_KILLED_EXIT_CODE: Final = 137
_LOST_REASON: Final = "ContainerStatusUnknown"
_LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
FILE: Final = "file"
"""The source of a static pod."""

CANNOT_RUN: Final = frozenset({"StartError", "RunContainerError", "ContainerCannotRun"})
"""Reasons of containers that were made and never ran; with all others nothing was made, and the pod waits."""


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container of a pod.

    Attributes:
        state: the state of the newest instance, or the reason why there is none.
        last: the end of the instance before; while the container waits, the end of the newest one.
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
        """The end of the newest instance that has ended."""
        return self.state if isinstance(self.state, Terminated) else self.last


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion under way. ``deadline`` is v1's deletion timestamp, at which the grace period is over."""

    deadline: datetime
    grace_s: int

    @classmethod
    def at(cls, now: datetime, *, grace_s: int) -> Deletion:
        return cls(now + timedelta(seconds=grace_s), grace_s)


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why the node does not run a pod; ``message`` lacks the words put before it in a pod's status."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a pod that ran was made to fail, whatever becomes of its containers."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ClientCondition:
    """A condition of a pod that a client has set.

    Attributes:
        status: ``True``, ``False`` or ``Unknown``.
        probed_at, changed_at: v1's ``lastProbeTime`` and ``lastTransitionTime``.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    probed_at: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Disruption:
    """The reason why something else than its owner has the pod deleted, as its condition ``DisruptionTarget`` tells."""

    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod.

    Attributes:
        bound_at: the moment at which it got its place on the node.
        unschedulable: the scheduler's words, while the pod has no place.
        nominated_node: the node on which others make room for it, while it has no place; not kept.
        started_at: the moment at which the node took it up.
        health: of the devices it holds, as its status tells; not kept, but asked for again.
        runtime_problem: the reason why the state of its containers is not known; empty when it is known, and not kept.
        ips: the addresses of its sandbox, ``podIP`` first; not kept, but asked for again.
        has_stopped: nothing of it runs, and nothing will be started again.
        sandbox_since: when its sandbox was ready; None while there is none, or a new one has to be made.
        conditions: those that clients have set.
        gates_since: the moment since which its readiness gates are all open, or not all; None if they never changed.
        managed: v1's managed fields: which client owns which field of the pod.
        version: grows with each change of any pod; v1's resource version.
    """

    pod: Pod
    created_at: datetime
    containers: Mapping[ContainerName, ContainerRecord]
    stage: PodStage = PodStage.UNSCHEDULED
    bound_at: datetime | None = None
    unschedulable: str = ""
    nominated_node: str = ""
    started_at: datetime | None = None
    deletion: Deletion | None = None
    rejection: Rejection | None = None
    failure: Failure | None = None
    disruption: Disruption | None = None
    health: DevicesHealth = field(default_factory=dict)
    ips: tuple[str, ...] = ()
    runtime_problem: str = ""
    sandbox_since: datetime | None = None
    has_stopped: bool = False
    conditions: tuple[ClientCondition, ...] = ()
    gates_since: datetime | None = None
    managed: tuple[Json, ...] = ()
    version: int = field(default=0, compare=False)

    @property
    def uid(self) -> PodUid:
        return self.pod.uid

    @property
    def full_name(self) -> str:
        """The pod's name as kubelets write it in messages: ``name_namespace(uid)``."""
        return f"{self.pod.name}_{self.pod.namespace}({self.uid})"

    @property
    def closed_gates(self) -> list[str]:
        """The readiness gates that keep the pod from being ready."""
        holding = {each.type for each in self.conditions if each.status == "True"}
        return [gate for gate in self.pod.spec.readiness_gates if gate not in holding]

    def with_conditions(self, conditions: tuple[ClientCondition, ...], *, now: datetime) -> PodRecord:
        """Itself with other conditions of clients, which may open or close its readiness gates."""
        changed = replace(self, conditions=conditions)
        is_same = bool(changed.closed_gates) is bool(self.closed_gates)
        return changed if is_same else replace(changed, gates_since=now)

    def after(self, step: PodStep) -> PodRecord:
        stage = advance(self.stage, step)
        return replace(self, stage=stage, has_stopped=self.has_stopped or stage is PodStage.ENDED)

    def with_container(self, name: ContainerName, container: ContainerRecord) -> PodRecord:
        return replace(self, containers={**self.containers, name: container})

    def running(self) -> dict[ContainerName, Running]:
        """The containers that run, in start order."""
        return {name: each.state for name, each in self.containers.items() if isinstance(each.state, Running)}


def waiting_reason(pod: Pod) -> str:
    """The reason why the containers of a pod do not run while nothing has gone wrong."""
    return "PodInitializing" if pod.spec.init_containers else "ContainerCreating"


def first_step(container: Container) -> Startup:
    """The step of a container whose process has just started."""
    return Startup.POST_START if container.post_start else step_after_hook(container)


def step_after_hook(container: Container) -> Startup:
    return Startup.PROBED if container.probes.startup else step_after_start(container)


def step_after_start(container: Container) -> Startup:
    """The step of a container that has started and was not yet asked whether it is ready."""
    return Startup.UNREADY if container.probes.readiness else Startup.DONE


def new_record(pod: Pod, *, created_at: datetime) -> PodRecord:
    """The record of a pod that nothing has happened to yet."""
    waiting = Waiting(waiting_reason(pod))
    containers = {each.name: ContainerRecord(each.kind, waiting) for each in pod.spec.all_containers}
    return PodRecord(pod, created_at, containers)


def terminated(state: ContainerState, *, now: datetime) -> Terminated:
    """The end of an instance that runs no more; ``now`` stands in where the runtime does not know the moment."""
    code = state.exit_code if state.exit_code is not None else _KILLED_EXIT_CODE
    return Terminated(
        state.id,
        code,
        state.reason or ("Completed" if code == 0 else "Error"),
        state.finished_at or now,
        state.started_at,
        state.message or (_LOST_MESSAGE if state.state is RunState.LOST else ""),
        state.image_id,
    )


def lost(running: Running, *, now: datetime) -> Terminated:
    """The end of an instance that the runtime does not know any more."""
    return Terminated(
        running.id, _KILLED_EXIT_CODE, _LOST_REASON, now, running.started_at, _LOST_MESSAGE, running.image_id
    )


def is_static(pod: Pod) -> bool:
    """Whether a manifest on the node keeps ``pod`` there; the annotation alone, which clients set too, does not do."""
    return pod.annotations.get(SOURCE_ANNOTATION) == FILE and pod.annotations.get(HASH_ANNOTATION) == pod.uid


# --- whether containers are started again ---------------------------------------------------------------------------


def restarts(kind: ContainerKind, policy: RestartPolicy, end: Terminated) -> bool:
    """Whether a container that ended so is started again while its pod lives.

    Source: kubelet 1.36 ``container/helpers.go``, ``ShouldContainerBeRestarted``.
    """
    match kind:
        case ContainerKind.SIDECAR:
            return True
        case ContainerKind.INIT:
            return end.exit_code != 0 and policy is not RestartPolicy.NEVER
        case ContainerKind.APP:
            return policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and end.exit_code != 0)


def is_over(record: PodRecord) -> bool:
    """Whether nothing of the pod will be started again: every app container, or one init container, ended for good."""
    policy = record.pod.spec.restart_policy
    inits = [each for each in record.containers.values() if each.kind is ContainerKind.INIT]
    apps = [each for each in record.containers.values() if each.kind is ContainerKind.APP]
    return any(_failed(each, policy) for each in inits) or all(_ended(each, policy) for each in apps)


def _ended(container: ContainerRecord, policy: RestartPolicy) -> bool:
    return isinstance(container.state, Terminated) and not restarts(container.kind, policy, container.state)


def _failed(container: ContainerRecord, policy: RestartPolicy) -> bool:
    return _ended(container, policy) and isinstance(container.state, Terminated) and container.state.exit_code != 0
