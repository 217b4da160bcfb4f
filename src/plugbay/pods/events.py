"""Events: something that happened to an object of the node, and the v1 Event that tells it."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Final

from plugbay.documents import Json
from plugbay.model.ids import ContainerName
from plugbay.model.pods import DEFAULT_NAMESPACE, Pod
from plugbay.pods.status import timestamp
from plugbay.values import dataclass

KUBELET: Final = "kubelet"
SCHEDULER: Final = "default-scheduler"


class EventType(Enum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an event is about; ``field_path`` names a container, such as ``spec.containers{app}``."""

    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str = ""
    api_version: str = "v1"


@dataclass(frozen=True, slots=True)
class Event:
    """``name`` is unique on the node.

    Attributes:
        serial: grows with each record of any event. Times do not tell the order of events, as clocks are set back.
    """

    name: str
    about: ObjectRef
    type: EventType
    reason: str
    message: str
    component: str
    count: int
    first_at: datetime
    last_at: datetime
    serial: int = 0

    @property
    def namespace(self) -> str:
        """The namespace that lists it; events of the node itself are in the default namespace, as with a kubelet."""
        return self.about.namespace or DEFAULT_NAMESPACE


def pod_ref(pod: Pod, container: ContainerName | None = None) -> ObjectRef:
    """``pod``, or one container of it."""
    if container is None:
        return ObjectRef("Pod", pod.namespace, pod.name, pod.uid)
    is_init = any(each.name == container for each in pod.spec.init_containers)
    where = "initContainers" if is_init else "containers"
    return ObjectRef("Pod", pod.namespace, pod.name, pod.uid, f"spec.{where}{{{container}}}")


def event_object(event: Event) -> Json:
    """The v1 Event."""
    about = event.about
    involved: Json = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }
    if about.field_path:
        involved["fieldPath"] = about.field_path
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": event.name,
            "namespace": event.namespace,
            "creationTimestamp": timestamp(event.first_at),
        },
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message,
        "type": event.type.value,
        "count": event.count,
        "firstTimestamp": timestamp(event.first_at),
        "lastTimestamp": timestamp(event.last_at),
        "source": {"component": event.component},
    }
