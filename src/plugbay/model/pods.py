"""The part of a v1 Pod that plugbay's node acts on, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from plugbay.model.ids import ContainerName, PodUid, ResourceName, is_extended_resource
from plugbay.model.images import PullPolicy
from plugbay.model.ports import ContainerPort
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.model.resolution import NO_DNS, DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import DEFAULT_SECURITY, Security
from plugbay.model.termination import MessagePolicy

FieldPath = tuple[str | int, ...]
"""Where a value stands in a v1 object: mapping keys and list indices."""

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_GRACE_PERIOD_S: Final = 30
NO_UID: Final = PodUid("")
MAX_GENERATED_BASE: Final = 58
"""Of ``generateName`` so much is kept, as the API server does: five characters follow, a label has 63."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class RestartPolicy(Enum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class HostPathType(Enum):
    """What must be, or is made, at a host path before the container starts."""

    UNCHECKED = ""
    DIRECTORY_OR_CREATE = "DirectoryOrCreate"
    DIRECTORY = "Directory"
    FILE_OR_CREATE = "FileOrCreate"
    FILE = "File"
    SOCKET = "Socket"
    CHAR_DEVICE = "CharDevice"
    BLOCK_DEVICE = "BlockDevice"


@dataclass(frozen=True, slots=True)
class HostPath:
    path: str
    type: HostPathType = HostPathType.UNCHECKED


@dataclass(frozen=True, slots=True)
class EmptyDir:
    """A directory that lives as long as the pod."""


@dataclass(frozen=True, slots=True)
class Volume:
    name: str
    source: HostPath | EmptyDir


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """``name`` is the volume's; ``sub_path`` is a relative path inside it, empty for its root."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable of a container's environment.

    Attributes:
        value: may hold ``$(NAME)`` references; see `expand`.
        field_path: the field of the pod that gives the value instead; see `plugbay.model.downward`.
    """

    name: str
    value: str = ""
    field_path: str = ""


@dataclass(frozen=True, slots=True)
class ExecHook:
    """A command run in the container."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SleepHook:
    seconds: int


Hook = ExecHook | SleepHook


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, as written: nothing is expanded.

    Attributes:
        image: empty when the manifest names none.
        pull_policy: None is the usual one for the image's name.
        command: empty when the image's entrypoint is meant.
        post_start: run as soon as the container has started, which it has only when this is done.
        pre_stop: run before the container is stopped, within the grace period.
        requests: every resource, with limits standing in where no request is written, as the API server fills in.
        security: its own context, without the pod's.
        message_path: of the file for the termination message; empty is the usual one.
        message_policy: None is the usual one.
    """

    name: ContainerName
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: tuple[EnvVar, ...] = ()
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    limits: Mapping[str, Quantity] = field(default_factory=dict)
    volume_mounts: tuple[VolumeMount, ...] = ()
    kind: ContainerKind = ContainerKind.APP
    post_start: Hook | None = None
    pre_stop: Hook | None = None
    ports: tuple[ContainerPort, ...] = ()
    security: Security = DEFAULT_SECURITY
    pull_policy: PullPolicy | None = None
    message_path: str = ""
    message_policy: MessagePolicy | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What should run. Init containers and sidecars stand in ``init_containers`` in their start order.

    Attributes:
        active_deadline_s: how long the pod may run from the moment the node took it up; None is without end.
        hostname: of its containers; empty is the pod's name.
        runtime_class: chooses how the runtime makes its containers; empty is the usual way.
        security: what holds for containers that say nothing else.
        dns_policy: None is the usual one, `DnsPolicy.CLUSTER_FIRST`.
        dns: comes after what ``dns_policy`` says.
        host_aliases: stand in ``/etc/hosts`` after the usual lines.
        sysctls: of the pod's own namespaces.
    """

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    termination_grace_period_s: int = DEFAULT_GRACE_PERIOD_S
    node_name: str | None = None
    active_deadline_s: int | None = None
    host_network: bool = False
    hostname: str = ""
    runtime_class: str = ""
    security: Security = DEFAULT_SECURITY
    dns_policy: DnsPolicy | None = None
    dns: DnsConfig = NO_DNS
    host_aliases: tuple[HostAlias, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(container.kind is not ContainerKind.APP for container in self.containers):
            raise ValueError("only app containers stand in containers")
        if any(container.kind is ContainerKind.APP for container in self.init_containers):
            raise ValueError("app containers do not stand in init_containers")

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """In admission order: init containers and sidecars, then app containers."""
        return self.init_containers + self.containers


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its author wants it.

    Attributes:
        name: empty as long as ``generate_name`` waits for `with_identity`.
        uid: empty until `with_identity`, unless the manifest brings one.
        unused: fields that were accepted and change nothing here, by their place in the v1 object.
    """

    name: str
    spec: PodSpec
    namespace: str = DEFAULT_NAMESPACE
    uid: PodUid = NO_UID
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    generate_name: str = ""
    unused: Mapping[FieldPath, object] = field(default_factory=dict)


def field_text(path: FieldPath) -> str:
    """``path`` as the API server writes it: ``spec.containers[0].resources.limits[example.com/gopher]``."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def with_identity(pod: Pod, *, uid: PodUid, suffix: str) -> Pod:
    """``pod`` with what the API server gives it at creation: a UID, and a name made of ``generateName``.

    What the manifest brought stays. ``suffix`` should be five random lower-case characters.
    """
    name = pod.name or pod.generate_name[:MAX_GENERATED_BASE] + suffix
    return replace(pod, name=name, uid=pod.uid or uid)


def pod_request(pod: Pod) -> PodRequest:
    """What ``pod`` asks of a device manager: the extended resources among its limits, zero amounts included."""
    containers = tuple(
        ContainerRequest(container.name, container.kind, _extended(container.limits))
        for container in pod.spec.all_containers
    )
    return PodRequest(pod.uid, pod.namespace, pod.name, containers)


def _extended(limits: Mapping[str, Quantity]) -> dict[ResourceName, int]:
    return {ResourceName(name): amount.to_int_ceil() for name, amount in limits.items() if is_extended_resource(name)}
