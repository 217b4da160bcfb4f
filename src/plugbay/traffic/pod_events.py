"""Steps of pods: the questions that a recorded manager was asked for them, and its answers. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from plugbay.model.requests import ContainerKind
from plugbay.values import dataclass


class RecordedStep(Enum):
    """The steps of a pod. Each question has its answer further down, `PREPARE` too."""

    HELD = "held"
    """It has devices since before the recording began."""
    ADMIT = "admit"
    ADMITTED = "admitted"
    REFUSED = "refused"
    PREPARE = "prepare"
    PREPARED = "prepared"
    NOT_PREPARED = "not prepared"
    NOT_STARTED = "not started"
    ENDED = "ended"
    RELEASE = "release"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class RecordedContainer:
    """A container of a pod that is to be admitted, with the number of devices by resource."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One step of a pod.

    Attributes:
        at_s: seconds since the recording began.
        uid: the pod's; ``namespace`` and ``name`` come with `RecordedStep.ADMIT` and `RecordedStep.HELD`.
        containers: of the pod, with these two.
        running: names of containers that outlived a restart of the node, with `RecordedStep.ADMIT`.
        devices: device IDs by container and resource, sorted, with `RecordedStep.ADMITTED` and `RecordedStep.HELD`.
        container: the one that the step is about, if it is about one.
        instance: the runtime's ID of a container that ended.
        problem: the text of a refusal.
    """

    at_s: float
    step: RecordedStep
    uid: str
    namespace: str = ""
    name: str = ""
    containers: tuple[RecordedContainer, ...] = ()
    running: tuple[str, ...] = ()
    devices: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    container: str = ""
    instance: str = ""
    problem: str = ""
