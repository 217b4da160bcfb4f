"""The part of a v1 Pod that plugbay's node acts on, as values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Final

from plugbay.model.actions import Hook
from plugbay.model.field_path import FieldPath
from plugbay.model.ids import ContainerName, PodUid, ResourceName, is_extended_resource
from plugbay.model.images import PullPolicy
from plugbay.model.owners import OwnerReference
from plugbay.model.placement import ANYWHERE, Placement
from plugbay.model.ports import ContainerPort
from plugbay.model.probes import NO_PROBES, Probes
from plugbay.model.projections import EnvSource, KeyReference, Projection, ResourceReference
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.model.resolution import NO_DNS, DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import DEFAULT_SECURITY, Security
from plugbay.model.termination import MessagePolicy
from plugbay.values import dataclass

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_GRACE_PERIOD_S: Final = 30
NO_UID: Final = PodUid("")
MAX_GENERATED_BASE: Final = 58
"""The most characters of ``generateName`` that the API server keeps: five more follow, and a label has 63."""


class RestartPolicy(Enum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class HostPathType(Enum):
    """The kind of file that must be, or is made, at a host path before the container starts."""

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
    """A directory that lives as long as the pod.

    Attributes:
        in_memory: whether it is a file system in memory, which ``size_limit`` bounds; on a disk nothing does.
    """

    in_memory: bool = False
    size_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    name: str
    source: HostPath | EmptyDir | Projection


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """``name`` is the volume's name; ``sub_path`` is a relative path inside the volume, empty for its root."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One variable of a container's environment.

    Attributes:
        value: may hold ``$(NAME)`` references; see `expand`.
        field_path: the field of the pod that is the value instead; see `plugbay.model.downward`.
        source: what else is the value instead.
    """

    name: str
    value: str = ""
    field_path: str = ""
    source: KeyReference | ResourceReference | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod, as written: nothing is expanded.

    Attributes:
        image: empty when the manifest names none.
        pull_policy: None means the default for the image's name.
        command: empty for the image's entrypoint.
        env_from: gives variables too; those of ``env`` win.
        post_start: runs as soon as the process has started; the container counts as started when this is done.
        pre_stop: runs before the container is stopped, within the grace period.
        requests: all resources; a missing request is filled in from the limit, as by the API server.
        security: the container's own context, without the pod's.
        message_path: path of the file for the termination message; empty means the default.
        message_policy: None means the default.
        stdin: whether its standard input is kept open for clients that attach.
        stdin_once: whether that ends with the first client.
        tty: whether it has a terminal.
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
    probes: Probes = NO_PROBES
    ports: tuple[ContainerPort, ...] = ()
    security: Security = DEFAULT_SECURITY
    pull_policy: PullPolicy | None = None
    message_path: str = ""
    message_policy: MessagePolicy | None = None
    env_from: tuple[EnvSource, ...] = ()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The containers to run, and how. Init containers and sidecars are in ``init_containers``, in their start order.

    Attributes:
        active_deadline_s: how long the pod may run from the moment the node took it up; None means without end.
        hostname: the host name in its containers; empty means the pod's name.
        runtime_class: chooses how the runtime makes its containers; empty means the default.
        security: the context for containers that do not set a field themselves.
        dns_policy: None means the default, `DnsPolicy.CLUSTER_FIRST`.
        dns: added to the settings that ``dns_policy`` chooses.
        host_aliases: lines of ``/etc/hosts`` after the usual ones.
        sysctls: kernel settings, for the pod's own namespaces.
        readiness_gates: types of conditions, set by clients, that have to hold before the pod is ready.
        service_account: empty means the default one.
        automount_token: whether its containers find a token of the account; None leaves it to the account.
        pull_secrets: the names of secrets with which its images are pulled.
        placement: what a scheduler looks at besides resources and ports.
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
    readiness_gates: tuple[str, ...] = ()
    service_account: str = ""
    automount_token: bool | None = None
    pull_secrets: tuple[str, ...] = ()
    placement: Placement = ANYWHERE

    def __post_init__(self) -> None:
        if any(container.kind is not ContainerKind.APP for container in self.containers):
            raise ValueError("only app containers stand in containers")
        if any(container.kind is ContainerKind.APP for container in self.init_containers):
            raise ValueError("app containers do not stand in init_containers")

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """All containers in admission order: init containers and sidecars, then app containers."""
        return self.init_containers + self.containers


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its manifest describes it.

    Attributes:
        name: empty until `with_identity` makes it of ``generate_name``.
        uid: empty until `with_identity`, unless the manifest sets it.
        owners: the objects that it belongs to, and is deleted with.
        finalizers: names of what has to be done elsewhere before the deleted pod disappears.
        unused: fields that were accepted but have no effect here, by their place in the v1 object.
    """

    name: str
    spec: PodSpec
    namespace: str = DEFAULT_NAMESPACE
    uid: PodUid = NO_UID
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    generate_name: str = ""
    owners: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    unused: Mapping[FieldPath, object] = field(default_factory=dict)


def with_identity(pod: Pod, *, uid: PodUid, suffix: str) -> Pod:
    """Give ``pod`` what the API server gives it at creation: a UID, and a name made of ``generateName``.

    Values of the manifest stay. ``suffix`` should be five random lower-case characters.
    """
    name = pod.name or pod.generate_name[:MAX_GENERATED_BASE] + suffix
    return replace(pod, name=name, uid=pod.uid or uid)


def without_empty(pod: Pod) -> Pod:
    """``pod`` without its empty mappings, which say nothing."""
    return replace(pod, unused={path: value for path, value in pod.unused.items() if value != {}})


def pod_request(pod: Pod, *, without: Collection[str] = ()) -> PodRequest:
    """The request of ``pod`` to a device manager: the extended resources among its limits, zero amounts included.

    Args:
        without: resources that the device manager has nothing to do with.
    """
    containers = tuple(
        ContainerRequest(container.name, container.kind, _extended(container.limits, without))
        for container in pod.spec.all_containers
    )
    return PodRequest(pod.uid, pod.namespace, pod.name, containers)


def _extended(limits: Mapping[str, Quantity], without: Collection[str]) -> dict[ResourceName, int]:
    return {
        ResourceName(name): amount.to_int_ceil()
        for name, amount in limits.items()
        if is_extended_resource(name) and name not in without
    }
