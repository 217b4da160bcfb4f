"""The values of what stands below kubelet and plugins: CDI, engine, networks, machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file of the host that a container is given, or a CDI spec names.

    Attributes:
        mode: permissions and type, as ``stat`` gives them; None if there is no such file.
        wanted_by: a clause: the CDI device, or the container.
    """

    path: str
    wanted_by: str
    mode: int | None
    uid: int = 0
    gid: int = 0
    kind: str = "file"
    pod_uid: str = ""
    container: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class SpecSight:
    """The CDI specs of the host.

    Attributes:
        directories: those that exist.
        devices: the qualified names that engines can inject.
        bad: what makes files useless, by path.
        conflicts: devices that two files of one directory define, as sentences by path.
        files: what specs take from the host.
        ignored: files that no engine reads, by their ending.
        unfinished: files that writers left, which were killed.
    """

    directories: tuple[str, ...] = ()
    devices: frozenset[str] = frozenset()
    bad: tuple[tuple[str, str], ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    files: tuple[HostFile, ...] = ()
    ignored: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineSight:
    """The container engine.

    Attributes:
        socket: the path of its socket.
        is_listening: False when no process listens there.
        config: the path of its configuration; empty if there is none.
        cdi: whether it injects CDI devices; None if its configuration does not tell.
        is_cdi_default: ``cdi`` is what containerd 1.7 does where its configuration says nothing; 2.0 injects.
        spec_directories: where it looks for CDI specs.
        cni_directory: where it looks for networks.
    """

    name: str
    socket: str
    is_listening: bool
    config: str = ""
    cdi: bool | None = None
    why_cdi: str = ""
    spec_directories: tuple[str, ...] = ("/etc/cdi", "/var/run/cdi")
    cni_directory: str = "/etc/cni/net.d"
    plugin_directories: tuple[str, ...] = ("/opt/cni/bin",)
    owns_devices: bool = False
    is_cdi_default: bool = False


@dataclass(frozen=True, slots=True)
class CniSight:
    """The CNI configuration.

    Attributes:
        is_there: whether the directory is.
        networks: by file, the network's name and the types of its plugins.
        bad: what makes files useless, by path.
        missing: the plugin types of the first network that have no program.
    """

    directory: str = ""
    is_there: bool = False
    networks: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    bad: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiskSight:
    """A file system, by a directory on it. Inodes are 0 where the file system does not count them."""

    path: str
    size: int
    free: int
    inodes: int = 0
    free_inodes: int = 0
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Denial:
    """A line of a log by which a security module said no."""

    source: str
    line: str


@dataclass(frozen=True, slots=True)
class MachineSight:
    """The machine.

    Attributes:
        now_s: the time of the examination, in seconds since 1970.
        inotify: the limits of inotify, by name.
        inotify_problem: why a watch could not be made; empty if it could.
        is_cgroup_v1: None if it is not known.
        enforces_selinux: SELinux is there and enforces.
        given: the files of the host that containers were given.
    """

    now_s: float = 0
    inotify: Mapping[str, int] = field(default_factory=dict)
    inotify_problem: str = ""
    is_cgroup_v1: bool | None = None
    numa_nodes: int = 1
    enforces_selinux: bool = False
    denials: tuple[Denial, ...] = ()
    disks: tuple[DiskSight, ...] = ()
    given: tuple[HostFile, ...] = ()
