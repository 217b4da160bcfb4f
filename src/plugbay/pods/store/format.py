"""The form in which pods and events are kept: JSON texts, read back as values.

Compatibility: fields are only added, with defaults; anything else needs a new ``user_version`` of the store. Every
member is spelled out here, so that a change of a value class changes no row. The values of `PodStage`, `Startup`,
`EventType` and `Effect` are part of the format.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TypeVar

import msgspec

from plugbay.documents import Json
from plugbay.manifest import Strictness, pod_from_v1, pod_to_v1
from plugbay.model.nodes import NodeInput
from plugbay.model.taints import Effect, Taint
from plugbay.pods.events import Event, EventType, ObjectRef
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import (
    ClientCondition,
    ContainerRecord,
    Deletion,
    Disruption,
    Failure,
    PodRecord,
    Rejection,
    Running,
    Startup,
    State,
    Terminated,
    Waiting,
    new_record,
)
from plugbay.printers import v1
from plugbay.runtimes.port import ContainerId

_Kind = TypeVar("_Kind")


class _Waiting(msgspec.Struct):
    reason: str
    message: str = ""


class _Running(msgspec.Struct):
    id: ContainerId
    started_at: datetime
    startup: Startup = Startup.DONE
    image_id: str = ""
    changed_at: datetime | None = None
    image: str | None = None


class _Terminated(msgspec.Struct):
    id: ContainerId | None
    exit_code: int
    reason: str
    finished_at: datetime
    started_at: datetime | None = None
    message: str = ""
    image_id: str = ""


class _Container(msgspec.Struct, omit_defaults=True):
    """One of ``waiting``, ``running``, ``terminated`` is set: the state."""

    attempt: int
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None
    last: _Terminated | None = None


class _Deletion(msgspec.Struct):
    deadline: datetime
    grace_s: int


class _Cause(msgspec.Struct):
    """A rejection or a failure."""

    reason: str
    message: str


class _Condition(msgspec.Struct, omit_defaults=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    probed_at: datetime | None = None
    changed_at: datetime | None = None


class _Disruption(msgspec.Struct):
    reason: str
    message: str
    since: datetime


class _Progress(msgspec.Struct, omit_defaults=True):
    """Everything in a pod's record that changes."""

    stage: PodStage
    containers: dict[str, _Container]
    bound_at: datetime | None = None
    started_at: datetime | None = None
    deletion: _Deletion | None = None
    rejection: _Cause | None = None
    failure: _Cause | None = None
    disruption: _Disruption | None = None
    sandbox_since: datetime | None = None
    has_stopped: bool = False
    conditions: list[_Condition] = []  # msgspec copies it
    gates_since: datetime | None = None


class _ObjectRef(msgspec.Struct):
    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str = ""
    api_version: str | msgspec.UnsetType = msgspec.UNSET


class _Taint(msgspec.Struct, omit_defaults=True):
    key: str
    effect: Effect
    value: str = ""
    added: str = ""


class _Node(msgspec.Struct, omit_defaults=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: list[_Taint] = []
    cordoned_since: datetime | None = None
    extended: dict[str, int] = {}
    conditions: dict[str, dict[str, str]] = {}
    managed: list[Json] = []
    registered_at: datetime | None = None


class _Event(msgspec.Struct):
    name: str
    about: _ObjectRef
    type: EventType
    reason: str
    message: str
    component: str
    count: int
    first_at: datetime
    last_at: datetime
    serial: int = 0


# --- pods -----------------------------------------------------------------------------------------------------------


def encode_pod(record: PodRecord) -> tuple[str, str, str]:
    """The manifest, the moment of creation, and the progress of a pod."""
    deletion, rejection, failure = record.deletion, record.rejection, record.failure
    progress = _Progress(
        stage=record.stage,
        containers={name: _encode_container(each) for name, each in record.containers.items()},
        bound_at=record.bound_at,
        started_at=record.started_at,
        deletion=_Deletion(deletion.deadline, deletion.grace_s) if deletion else None,
        rejection=_Cause(rejection.reason, rejection.message) if rejection else None,
        failure=_Cause(failure.reason, failure.message) if failure else None,
        disruption=_Disruption(why.reason, why.message, why.since) if (why := record.disruption) else None,
        sandbox_since=record.sandbox_since,
        has_stopped=record.has_stopped,
        conditions=[
            _Condition(each.type, each.status, each.reason, each.message, each.probed_at, each.changed_at)
            for each in record.conditions
        ],
        gates_since=record.gates_since,
    )
    manifest = pod_to_v1(record.pod)
    if record.managed:
        manifest["metadata"] = v1.mapping(manifest, "metadata") | {"managedFields": record.managed}
    return (
        json.dumps(manifest, ensure_ascii=False),
        record.created_at.isoformat(),
        msgspec.json.encode(progress).decode(),
    )


def decode_pod(manifest: str, created_at: str, progress: str) -> PodRecord:
    """The record that `encode_pod` was given.

    Raises:
        InvalidManifest, ValueError: the texts are damaged.
    """
    # Lenient: a pod that an older version took in with a field that is refused now is still there.
    value = json.loads(manifest)
    pod = pod_from_v1(value, mode=Strictness.LENIENT)
    fresh = new_record(pod, created_at=datetime.fromisoformat(created_at))
    kept = _decode(progress, _Progress)
    return PodRecord(
        fresh.pod,
        fresh.created_at,
        {name: _decode_container(each, kept.containers.get(name)) for name, each in fresh.containers.items()},
        stage=kept.stage,
        bound_at=kept.bound_at,
        started_at=kept.started_at,
        deletion=Deletion(kept.deletion.deadline, kept.deletion.grace_s) if kept.deletion else None,
        rejection=Rejection(kept.rejection.reason, kept.rejection.message) if kept.rejection else None,
        failure=Failure(kept.failure.reason, kept.failure.message) if kept.failure else None,
        disruption=Disruption(why.reason, why.message, why.since) if (why := kept.disruption) else None,
        sandbox_since=kept.sandbox_since,
        has_stopped=kept.has_stopped,
        conditions=tuple(
            ClientCondition(each.type, each.status, each.reason, each.message, each.probed_at, each.changed_at)
            for each in kept.conditions
        ),
        gates_since=kept.gates_since,
        managed=tuple(v1.objects(value, "metadata", "managedFields")),
    )


def _encode_container(container: ContainerRecord) -> _Container:
    kept = _Container(container.attempt, last=_encode_end(container.last) if container.last else None)
    match container.state:
        case Waiting(reason, message):
            kept.waiting = _Waiting(reason, message)
        case Running() as running:
            kept.running = _Running(
                running.id, running.started_at, running.startup, running.image_id, running.changed_at, running.image
            )
        case Terminated() as end:
            kept.terminated = _encode_end(end)
    return kept


def _encode_end(end: Terminated) -> _Terminated:
    return _Terminated(
        id=end.id,
        exit_code=end.exit_code,
        reason=end.reason,
        finished_at=end.finished_at,
        started_at=end.started_at,
        message=end.message,
        image_id=end.image_id,
    )


def _decode_container(fresh: ContainerRecord, kept: _Container | None) -> ContainerRecord:
    if kept is None:
        return fresh
    last = _decode_end(kept.last) if kept.last else None
    return ContainerRecord(fresh.kind, _decode_state(kept) or fresh.state, last, kept.attempt)


def _decode_state(kept: _Container) -> State | None:
    if running := kept.running:
        return Running(
            running.id, running.started_at, running.startup, running.image_id, running.changed_at, running.image
        )
    if kept.terminated:
        return _decode_end(kept.terminated)
    return Waiting(kept.waiting.reason, kept.waiting.message) if kept.waiting else None


def _decode_end(kept: _Terminated) -> Terminated:
    return Terminated(
        id=kept.id,
        exit_code=kept.exit_code,
        reason=kept.reason,
        finished_at=kept.finished_at,
        started_at=kept.started_at,
        message=kept.message,
        image_id=kept.image_id,
    )


# --- events ---------------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> str:
    about = event.about
    kept = _Event(
        name=event.name,
        about=_ObjectRef(
            about.kind,
            about.namespace,
            about.name,
            about.uid,
            about.field_path,
            msgspec.UNSET if about.api_version == "v1" else about.api_version,
        ),
        type=event.type,
        reason=event.reason,
        message=event.message,
        component=event.component,
        count=event.count,
        first_at=event.first_at,
        last_at=event.last_at,
        serial=event.serial,
    )
    return msgspec.json.encode(kept).decode()


def decode_event(text: str) -> Event:
    """The event that `encode_event` was given.

    Raises:
        ValueError: the text is damaged.
    """
    kept = _decode(text, _Event)
    about = kept.about
    return Event(
        name=kept.name,
        about=ObjectRef(
            about.kind, about.namespace, about.name, about.uid, about.field_path, about.api_version or "v1"
        ),
        type=kept.type,
        reason=kept.reason,
        message=kept.message,
        component=kept.component,
        count=kept.count,
        first_at=kept.first_at,
        last_at=kept.last_at,
        serial=kept.serial,
    )


# --- the node -------------------------------------------------------------------------------------------------------


def encode_node(settings: NodeInput) -> str:
    kept = _Node(
        labels=dict(settings.labels),
        annotations=dict(settings.annotations),
        taints=[_Taint(each.key, each.effect, each.value, each.added) for each in settings.taints],
        cordoned_since=settings.cordoned_since,
        extended=dict(settings.extended),
        conditions={kind: dict(condition) for kind, condition in settings.conditions.items()},
        managed=[dict(each) for each in settings.managed],
        registered_at=settings.registered_at,
    )
    return msgspec.json.encode(kept).decode()


def decode_node(text: str) -> NodeInput:
    """The settings that `encode_node` was given.

    Raises:
        ValueError: the text is damaged.
    """
    kept = _decode(text, _Node)
    return NodeInput(
        labels=kept.labels,
        annotations=kept.annotations,
        taints=tuple(Taint(each.key, each.effect, each.value, each.added) for each in kept.taints),
        cordoned_since=kept.cordoned_since,
        extended=kept.extended,
        conditions=kept.conditions,
        managed=tuple(kept.managed),
        registered_at=kept.registered_at,
    )


def _decode(text: str, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:  # it is not a ValueError before msgspec 0.21
        raise ValueError(str(error)) from error
