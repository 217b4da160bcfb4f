"""The form in which pods and events are kept: JSON texts, read back as values.

Compatibility: fields are only added, with defaults; anything else needs a new ``user_version`` of the store.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TypeVar

import msgspec

from plugbay.node.events import Event
from plugbay.node.lifecycle import Stage
from plugbay.node.manifest import Strictness, pod_from_v1, pod_to_v1
from plugbay.node.records import (
    ContainerRecord,
    Deletion,
    Failure,
    PodRecord,
    Rejection,
    Running,
    State,
    Terminated,
    Waiting,
    new_record,
)

_Kind = TypeVar("_Kind")


class _Container(msgspec.Struct, omit_defaults=True):
    """One of ``waiting``, ``running``, ``terminated`` is set: the state."""

    attempt: int
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None
    last: Terminated | None = None


class _Progress(msgspec.Struct, omit_defaults=True):
    """All of a record that changes."""

    stage: Stage
    containers: dict[str, _Container]
    bound_at: datetime | None = None
    started_at: datetime | None = None
    deletion: Deletion | None = None
    rejection: Rejection | None = None
    failure: Failure | None = None
    sandbox_since: datetime | None = None
    has_stopped: bool = False


def encode_pod(record: PodRecord) -> tuple[str, str, str]:
    """Manifest, moment of creation, progress."""
    progress = _Progress(
        record.stage,
        {name: _encode_container(each) for name, each in record.containers.items()},
        record.bound_at,
        record.started_at,
        record.deletion,
        record.rejection,
        record.failure,
        record.sandbox_since,
        record.has_stopped,
    )
    manifest = json.dumps(pod_to_v1(record.pod), ensure_ascii=False)
    return manifest, record.created_at.isoformat(), msgspec.json.encode(progress).decode()


def decode_pod(manifest: str, created_at: str, progress: str) -> PodRecord:
    """What `encode_pod` was given.

    Raises:
        InvalidManifest, ValueError: the texts are damaged.
    """
    # Lenient: a pod that an older version took in with a field that is refused now is still there.
    pod = pod_from_v1(json.loads(manifest), mode=Strictness.LENIENT)
    record = new_record(pod, created_at=datetime.fromisoformat(created_at))
    kept = _decode(progress, _Progress)
    containers = {name: _decode_container(each, kept.containers.get(name)) for name, each in record.containers.items()}
    return PodRecord(
        record.pod,
        record.created_at,
        containers,
        stage=kept.stage,
        bound_at=kept.bound_at,
        started_at=kept.started_at,
        deletion=kept.deletion,
        rejection=kept.rejection,
        failure=kept.failure,
        sandbox_since=kept.sandbox_since,
        has_stopped=kept.has_stopped,
    )


def encode_event(event: Event) -> str:
    return msgspec.json.encode(event).decode()


def decode_event(text: str) -> Event:
    """What `encode_event` was given.

    Raises:
        ValueError: the text is damaged.
    """
    return _decode(text, Event)


def _decode(text: str, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:  # no ValueError before msgspec 0.21
        raise ValueError(str(error)) from error


def _encode_container(container: ContainerRecord) -> _Container:
    kept = _Container(container.attempt, last=container.last)
    match container.state:
        case Waiting():
            kept.waiting = container.state
        case Running():
            kept.running = container.state
        case Terminated():
            kept.terminated = container.state
    return kept


def _decode_container(fresh: ContainerRecord, kept: _Container | None) -> ContainerRecord:
    if kept is None:
        return fresh
    state: State = kept.running or kept.terminated or kept.waiting or fresh.state
    return ContainerRecord(fresh.kind, state, kept.last, kept.attempt)
