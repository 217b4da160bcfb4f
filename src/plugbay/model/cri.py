"""Requests to a container engine through CRI, and its answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum

from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import DnsConfig
from plugbay.model.security import Seccomp
from plugbay.values import dataclass


class NamespaceMode(Enum):
    """The owner of a namespace that a container is in."""

    POD = "pod"
    CONTAINER = "container"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class NamespaceModes:
    """The namespaces of a pod. Each container has its own process namespace unless the pod says otherwise."""

    network: NamespaceMode = NamespaceMode.POD
    pid: NamespaceMode = NamespaceMode.CONTAINER
    ipc: NamespaceMode = NamespaceMode.POD


@dataclass(frozen=True, slots=True)
class LinuxResources:
    """CPU in microseconds and shares, memory in bytes; 0 means no limit."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit: int = 0
    oom_score_adj: int = 0


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """A pod as an engine gets it.

    Attributes:
        attempt: number of sandboxes that the pod had before.
        hostname: empty for a pod on the host's network.
        dns: None lets the engine copy the host's ``resolv.conf``.
        resources: the sum for all containers, for engines that give each pod a virtual machine of its own.
    """

    name: str
    uid: str
    namespace: str
    attempt: int
    hostname: str
    log_directory: str
    cgroup_parent: str
    dns: DnsConfig | None = None
    ports: tuple[ContainerPort, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    namespaces: NamespaceModes = NamespaceModes()
    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    resources: LinuxResources = LinuxResources()


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    """The rights of a container. It has no seccomp filter unless the pod asks for one."""

    privileged: bool = False
    namespaces: NamespaceModes = NamespaceModes()
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    run_as_user: int | None = None
    run_as_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    seccomp: Seccomp = Seccomp.UNCONFINED
    masked_paths: tuple[str, ...] = ()
    read_only_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One container instance.

    Attributes:
        image: the engine's name for the image.
        asked_image: the pod's name for the image.
        command: replaces the image's entrypoint, if not empty.
        args: replace the image's command, if not empty or if there is a command.
        env: in order; the last value of a name counts.
        log_path: relative to the sandbox's log directory.
    """

    name: str
    attempt: int
    image: str
    asked_image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    working_dir: str
    env: tuple[tuple[str, str], ...]
    mounts: tuple[Mount, ...]
    devices: tuple[DeviceNode, ...]
    cdi_devices: tuple[str, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    log_path: str
    resources: LinuxResources
    security: ContainerSecurity
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class SandboxState(Enum):
    READY = "ready"
    NOT_READY = "not ready"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """``created_at`` is in nanoseconds since 1970."""

    id: str
    uid: str
    attempt: int
    state: SandboxState
    created_at: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """``ips``: the pod's addresses, the first one its ``podIP``; none on the host's network."""

    id: str
    state: SandboxState
    network: NamespaceMode
    ips: tuple[str, ...]


class ContainerPhase(Enum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    """The engine lost track of the container."""


@dataclass(frozen=True, slots=True)
class ListedContainer:
    id: str
    sandbox: str
    name: str
    attempt: int
    phase: ContainerPhase
    created_at: int
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """An engine's answer about a container.

    Attributes:
        started_at, finished_at: None before the container has started or finished.
        log_path: the absolute path of its log.
        mounts: container path to host path.
        pid: the number of its first process as the engine sees it; None when the engine does not tell.
        image_ref: the digest of the image it was made from.
    """

    id: str
    name: str
    attempt: int
    phase: ContainerPhase
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int
    reason: str
    message: str
    labels: Mapping[str, str]
    log_path: str
    pid: int | None
    annotations: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    image_ref: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """``user`` is a number, or None when the image names no user or a user's name; ``size`` is in bytes."""

    id: str
    user: int | None = None
    user_name: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """``name`` is the scheme of container IDs: ``containerd``, ``cri-o``."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """An engine's answer about itself.

    Attributes:
        problems: the reasons why it is not ready to run pods, or has no pod network, by condition.
        config: the engine's own settings as JSON, where it tells them.
    """

    problems: Mapping[str, str]
    config: str = ""


class CgroupDriver(Enum):
    """The maker of control groups, which decides how they are named."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class ExecResult:
    stdout: bytes
    stderr: bytes
    exit_code: int
