"""The status a kubelet writes for a pod, derived from its record: pure.

Source: kubelet 1.36 ``kubelet_pods.go`` (``getPhase``), ``status/generate.go`` (conditions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from plugbay.documents import Json
from plugbay.model.health import HealthState
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.qos import qos_class
from plugbay.model.requests import ContainerKind
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import (
    CANNOT_RUN,
    ClientCondition,
    ContainerRecord,
    PodRecord,
    Running,
    Startup,
    State,
    Terminated,
    Waiting,
    is_over,
    waiting_reason,
)

HOST_IP: Final = "127.0.0.1"


class PodPhase(Enum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def pod_status(record: PodRecord, *, runtime: str) -> Json:
    """v1's PodStatus; ``runtime`` is the scheme of container IDs."""
    record = _as_shown(record)
    current = phase(record)
    others = [_client_condition(each) for each in record.conditions]
    status: Json = {"phase": current.value, "conditions": [*others, *_conditions(record, current)]}
    if record.rejection is not None and current is PodPhase.FAILED:
        status["reason"] = record.rejection.reason
        status["message"] = f"Pod was rejected: {record.rejection.message}"
    elif record.failure is not None and current is PodPhase.FAILED:
        status |= {"reason": record.failure.reason, "message": record.failure.message}
    if record.started_at is not None:
        status |= {"hostIP": HOST_IP, "hostIPs": [{"ip": HOST_IP}], "startTime": timestamp(record.started_at)}
        ips = record.ips or ((HOST_IP,) if record.pod.spec.host_network else ())
        if ips:
            status |= {"podIP": ips[0], "podIPs": [{"ip": ip} for ip in ips]}
    if record.stage not in (PodStage.UNSCHEDULED, PodStage.BOUND) and _was_taken_up(record):
        images = {container.name: container.image for container in record.pod.spec.all_containers}
        inits: list[Json] = []
        apps: list[Json] = []
        for name, container in record.containers.items():
            shown = inits if container.kind is not ContainerKind.APP else apps
            shown.append(_container_status(name, container, image=images[name], runtime=runtime))
            if container.kind is ContainerKind.APP and name in record.health:
                shown[-1]["allocatedResourcesStatus"] = _resources_status(record.health[name])
        status |= {"initContainerStatuses": inits} if inits else {}
        status["containerStatuses"] = apps
    if record.nominated_node:
        status["nominatedNodeName"] = record.nominated_node
    status["qosClass"] = qos_class(record.pod).value
    return status


def address(record: PodRecord) -> str:
    """The address at which the node reaches a pod: without an address of its own it shares the host's."""
    return record.ips[0] if record.ips else HOST_IP


def phase(record: PodRecord) -> PodPhase:
    """The phase of a pod. A pod that ends by itself gets a final phase only once it holds nothing any more.

    A deleted pod gets its final phase when it has stopped: a container that was just being restarted may run until
    then.
    """
    record = _as_shown(record)
    match record.stage:
        case PodStage.UNSCHEDULED | PodStage.BOUND:
            return PodPhase.PENDING
        case PodStage.ENDED:
            return _verdict(record)
        case PodStage.TERMINATING | PodStage.GONE if record.has_stopped:
            has_verdict = _was_taken_up(record) or record.rejection or record.failure
            return _verdict(record) if has_verdict else PodPhase.PENDING
        case _:
            return PodPhase.PENDING if is_starting(record) or _could_not_run(record) else PodPhase.RUNNING


def _as_shown(record: PodRecord) -> PodRecord:
    """``record`` with the containers whose post-start hook runs as still being made, as a kubelet shows them."""
    if record.stage is PodStage.TERMINATING:
        return record  # no hook is waited for any more
    for name, state in record.running().items():
        if state.startup is Startup.POST_START:
            record = record.with_container(name, record.containers[name].waiting(waiting_reason(record.pod)))
    return record


def is_starting(record: PodRecord) -> bool:
    """Whether some app container, or an init container before it, never came to run."""
    return not is_initialized(record) or any(
        isinstance(container.state, Waiting) and container.last is None for container in _apps(record)
    )


def _could_not_run(record: PodRecord) -> bool:
    """Whether the pod is over and no app container ever ran.

    By its containers it has failed; but a kubelet keeps the phase of before until nothing of the pod can run any more.

    Source: kubelet 1.36 ``status_manager.go``, ``mergePodStatus``.
    """
    ends = [end for each in _apps(record) for end in (each.state, each.last) if end is not None]
    return is_over(record) and all(isinstance(end, Terminated) and end.reason in CANNOT_RUN for end in ends)


def is_initialized(record: PodRecord) -> bool:
    """Whether app containers may start, or have started."""
    return not _incomplete(record) or any(not isinstance(each.state, Waiting) or each.last for each in _apps(record))


def _verdict(record: PodRecord) -> PodPhase:
    """The phase of an ended pod. A rejected one may have run before the node was restarted, and have succeeded."""
    if record.failure is not None:
        return PodPhase.FAILED
    ends = [each.state for each in record.containers.values() if each.kind is not ContainerKind.SIDECAR]
    well = all(isinstance(end, Terminated) and end.exit_code == 0 for end in ends)
    return PodPhase.SUCCEEDED if well else PodPhase.FAILED


def _was_taken_up(record: PodRecord) -> bool:
    """Whether containers were ever to run: a pod rejected at its first admission has no container statuses."""
    if record.rejection is None and record.stage is PodStage.ACTIVE:
        return True
    return any(each.attempt >= 0 for each in record.containers.values())


def _apps(record: PodRecord) -> list[ContainerRecord]:
    return [each for each in record.containers.values() if each.kind is ContainerKind.APP]


def _incomplete(record: PodRecord) -> list[ContainerName]:
    probed = {each.name for each in record.pod.spec.init_containers if each.probes.startup}
    return [
        name for name, each in record.containers.items() if not _is_complete(each, has_startup_probe=name in probed)
    ]


def _is_complete(container: ContainerRecord, *, has_startup_probe: bool) -> bool:
    match container.kind, container.state:
        case ContainerKind.APP, _:
            return True
        case ContainerKind.INIT, Terminated(exit_code=0):
            return True
        case ContainerKind.SIDECAR, Running() as running:
            return running.has_started
        case ContainerKind.SIDECAR, _:
            return container.attempt >= 0 and not has_startup_probe
        case _:
            return False


# --- conditions ----------------------------------------------------------------------------------------------------


def _conditions(record: PodRecord, current: PodPhase) -> list[Json]:
    disruptions = []
    if (why := record.disruption) is not None:
        condition = _condition("DisruptionTarget", why.since, holds=True, reason=why.reason, message=why.message)
        disruptions.append(condition)
    return [*disruptions, *_own_conditions(record, current)]


def _own_conditions(record: PodRecord, current: PodPhase) -> list[Json]:
    if record.bound_at is None:
        return [_not_scheduled(record)]
    scheduled = _condition("PodScheduled", record.bound_at, holds=True)
    if not _was_taken_up(record):
        return [scheduled]
    return [_ready_to_start(record), _initialized(record, current), *_ready(record, current), scheduled]


def _not_scheduled(record: PodRecord) -> Json:
    if record.pod.spec.placement.gates:
        message = "Scheduling is blocked due to non-empty scheduling gates"
        return _condition("PodScheduled", record.created_at, reason="SchedulingGated", message=message)
    reason = "Unschedulable" if record.unschedulable else ""
    return _condition("PodScheduled", record.created_at, reason=reason, message=record.unschedulable)


def _ready_to_start(record: PodRecord) -> Json:
    """Whether its sandbox is there, network and all; an ended pod has given it up."""
    kind = "PodReadyToStartContainers"
    if record.sandbox_since is None:
        return _condition(kind, record.started_at or record.created_at)
    if record.stage in (PodStage.ACTIVE, PodStage.TERMINATING):
        return _condition(kind, record.sandbox_since, holds=True)
    ends = [each.state.finished_at for each in record.containers.values() if isinstance(each.state, Terminated)]
    return _condition(kind, max([record.sandbox_since, *ends]))


def _initialized(record: PodRecord, current: PodPhase) -> Json:
    since = record.started_at or record.created_at
    incomplete = _incomplete(record)
    if current is PodPhase.SUCCEEDED:
        return _condition("Initialized", since, holds=True, reason="PodCompleted")
    if incomplete and not is_initialized(record):
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        return _condition("Initialized", since, reason="ContainersNotInitialized", message=message)
    ends = [
        each.state.finished_at
        for each in record.containers.values()
        if each.kind is ContainerKind.INIT and isinstance(each.state, Terminated)
    ]
    return _condition("Initialized", max([since, *ends]), holds=True)


def _ready(record: PodRecord, current: PodPhase) -> list[Json]:
    kinds = ("Ready", "ContainersReady")
    needed = {name: each for name, each in record.containers.items() if each.kind is not ContainerKind.INIT}
    if record.runtime_problem and current not in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        problem = f"container runtime is down: {record.runtime_problem}"
        since = record.started_at or record.created_at
        down = [_condition(kind, since, reason="ContainerRuntimeDown", message=problem) for kind in kinds]
        return [condition | {"status": "Unknown"} for condition in down]
    taken_up = record.started_at or record.created_at
    unready = [name for name, each in needed.items() if not _is_ready(each)]
    if not unready and is_initialized(record):
        since = max([taken_up, *_moments(each.state for each in needed.values())])
        return [_gated(record, since), _condition(kinds[1], since, holds=True)]
    since = _unready_since([needed[name] for name in unready]) or taken_up
    if current in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        reason = "PodCompleted" if current is PodPhase.SUCCEEDED else "PodFailed"
        return [_condition(kind, since, reason=reason) for kind in kinds]
    message = f"containers with unready status: [{' '.join(unready)}]"
    return [_condition(kind, since, reason="ContainersNotReady", message=message) for kind in kinds]


def _gated(record: PodRecord, since: datetime) -> Json:
    """The condition Ready of a pod whose containers are ready ``since``: it waits for its readiness gates too.

    Its moment is when the node saw the gates change: clients need not say when they did.

    Source: kubelet 1.36 ``status/generate.go``, ``GeneratePodReadyCondition``; ``status/status_manager.go``,
    ``updateLastTransitionTime``.
    """
    known = {each.type: each for each in record.conditions}
    closed = record.closed_gates
    since = max(since, record.gates_since or since)
    if not closed:
        return _condition("Ready", since, holds=True)
    problems = [
        f'the status of pod readiness gate "{gate}" is not "True", but {known[gate].status}'
        if gate in known
        else f'corresponding condition of pod readiness gate "{gate}" does not exist.'
        for gate in closed
    ]
    return _condition("Ready", since, reason="ReadinessGatesNotReady", message=", ".join(problems))


def _client_condition(condition: ClientCondition) -> Json:
    shown: Json = {"type": condition.type, "status": condition.status}
    moments = {"lastProbeTime": condition.probed_at, "lastTransitionTime": condition.changed_at}
    texts = {"reason": condition.reason, "message": condition.message}
    shown |= {name: moment and timestamp(moment) for name, moment in moments.items()}
    return shown | {name: text for name, text in texts.items() if text}


def _is_ready(container: ContainerRecord) -> bool:
    return isinstance(container.state, Running) and container.state.startup is Startup.DONE


def _unready_since(containers: Iterable[ContainerRecord]) -> datetime | None:
    """The moment at which the first of these ceased to be ready; None if one never ran."""
    moments = []
    for each in containers:
        shown = each.newest_end() if isinstance(each.state, Waiting) else each.state
        if shown is None:
            return None
        moments += _moments([shown])
    return min(moments, default=None)


def _moments(states: Iterable[State]) -> list[datetime]:
    moments = []
    for state in states:
        match state:
            case Running():
                moments.append(state.since)
            case Terminated(finished_at=moment):
                moments.append(moment)
    return moments


def _condition(kind: str, since: datetime, *, holds: bool = False, reason: str = "", message: str = "") -> Json:
    condition: Json = {"type": kind, "status": str(holds), "lastTransitionTime": timestamp(since)}
    return condition | {key: text for key, text in (("reason", reason), ("message", message)) if text}


# --- containers ----------------------------------------------------------------------------------------------------


def _container_status(name: ContainerName, container: ContainerRecord, *, image: str, runtime: str) -> Json:
    state = container.state
    done = container.kind is ContainerKind.INIT and isinstance(state, Terminated) and state.exit_code == 0
    shown = container.last if isinstance(state, Waiting) else state
    if isinstance(state, Running) and state.image is not None:
        image = state.image  # the pod may name another one, to which it is about to change
    status: Json = {
        "name": name,
        "image": image,
        "imageID": shown.image_id if shown else "",
        "ready": done or (_is_ready(container) and container.kind is not ContainerKind.INIT),
        "started": isinstance(state, Running) and state.has_started,
        "restartCount": container.restart_count,
        "state": _state(state, runtime),
        "lastState": _state(container.last, runtime) if container.last else {},
    }
    if shown is not None and shown.id is not None:
        status["containerID"] = f"{runtime}://{shown.id}"
    return status


def _resources_status(health: Mapping[ResourceName, Mapping[DeviceId, HealthState]]) -> list[Json]:
    return [
        {
            "name": resource,
            "resources": [{"resourceID": device_id, "health": state.value} for device_id, state in devices.items()],
        }
        for resource, devices in health.items()
    ]


def _state(state: State, runtime: str) -> Json:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        case Running(started_at=started_at):
            return {"running": {"startedAt": timestamp(started_at)}}
        case Terminated():
            ended: Json = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": timestamp(state.started_at or state.finished_at),
                "finishedAt": timestamp(state.finished_at),
            }
            if state.message:
                ended["message"] = state.message
            if state.id is not None:
                ended["containerID"] = f"{runtime}://{state.id}"
            return {"terminated": ended}


def timestamp(moment: datetime) -> str:
    """Write a moment as v1 does: whole seconds in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
