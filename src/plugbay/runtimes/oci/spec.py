"""The OCI runtime spec of a container, from what the pod asks for and what its devices give. Pure.

Source: containerd 2.1.9 ``internal/cri/server/container_create.go``, ``pkg/oci``; kubelet 1.36 ``kuberuntime``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plugbay.cdi.inject import OciSpec, clean, depth
from plugbay.model.edits import Mount
from plugbay.model.security import MASKED_PATHS, READ_ONLY_PATHS, Seccomp, Security
from plugbay.runtimes.devices import FoundDevice
from plugbay.runtimes.hosts import hostname
from plugbay.runtimes.oci.seccomp import default_profile
from plugbay.runtimes.oci.shares import HOST, UNSHARED, PodShares
from plugbay.runtimes.port import ContainerSpec
from plugbay.values import dataclass

OCI_VERSION: Final = "1.0.2"
"""The version that every crun and runc in use understands."""

_DEFAULT_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
"""The capabilities that containerd gives a container that asks for nothing."""
_ALL: Final = "ALL"
_PREFIX: Final = "CAP_"

_ANY_MKNOD: Final[tuple[OciSpec, ...]] = tuple({"allow": True, "type": kind, "access": "m"} for kind in ("c", "b"))
_STANDARD_NODES: Final = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (10, 200))
"""The devices that runc lets every container open: null, zero, full, random, urandom, tty, ptmx and tun."""
_PTS_MAJOR: Final = 136
_NAMESPACES: Final = ("pid", "ipc", "uts", "mount")


@dataclass(frozen=True, slots=True)
class ContainerSurroundings:
    """The surroundings that a container is put into.

    Attributes:
        rootfs: the directory that becomes ``/``.
        root_mounts: mounts that come before all others.
        shares: the things that it has together with other containers.
        cgroup: path below every cgroup hierarchy; None to leave the container where the engine is.
        capabilities: all capabilities that the engine itself can give, for ``ALL`` and for the privileged.
        machine: as ``uname -m`` says it.
    """

    rootfs: str
    root_mounts: Sequence[OciSpec] = ()
    shares: PodShares = UNSHARED
    cgroup: str | None = None
    capabilities: Sequence[str] = ()
    machine: str = ""


def oci_spec(
    spec: ContainerSpec, *, env: Mapping[str, str], around: ContainerSurroundings, devices: Iterable[FoundDevice]
) -> OciSpec:
    """``config.json`` of one container instance, without what CDI adds.

    Args:
        env: the container's whole environment.
        devices: the device nodes it is promised. Of two with the same path the first is made, and the rules of both
            hold.
    """
    security = spec.container.security
    devices = list(devices)
    nodes = {each.path: each for each in reversed(devices)}
    linux: OciSpec = {
        "namespaces": _namespaces(around),
        "devices": [_node(each) for each in nodes.values()][::-1],
        "resources": {"devices": _device_rules(devices, security), **spec.limits.linux_resources()},
    }
    if not security.privileged:
        linux |= {"maskedPaths": list(MASKED_PATHS), "readonlyPaths": list(READ_ONLY_PATHS)}
    if around.cgroup is not None:
        linux["cgroupsPath"] = around.cgroup
    capabilities = _capabilities(security, around.capabilities)
    if security.seccomp is Seccomp.RUNTIME_DEFAULT and not security.privileged:
        held = [each.removeprefix(_PREFIX) for each in capabilities["bounding"]]
        linux["seccomp"] = default_profile(held, machine=around.machine)
    own_name = {} if "uts" in around.shares.namespaces else {"hostname": host_name(spec, around.shares)}
    return {
        "ociVersion": OCI_VERSION,
        **own_name,
        "process": {
            "terminal": spec.container.tty,
            "user": _user(security),
            "args": list(spec.argv),
            "env": [f"{name}={value}" for name, value in env.items()],
            "cwd": spec.container.working_dir or "/",
            "capabilities": capabilities,
            "noNewPrivileges": security.forbids_escalation,
        },
        "root": {"path": around.rootfs, "readonly": True},
        "mounts": _mounts(spec, around),
        "annotations": dict(spec.edits.annotations),
        "linux": linux,
    }


def host_name(spec: ContainerSpec, shares: PodShares) -> str:
    """The host name of a container; a name that is too long is cut as by a kubelet."""
    return shares.hostname or hostname(spec.pod.spec.hostname or spec.pod.name)


def _user(security: Security) -> OciSpec:
    user: OciSpec = {"uid": security.run_as_user or 0, "gid": security.run_as_group or 0}
    if security.supplemental_groups:
        user["additionalGids"] = list(dict.fromkeys(security.supplemental_groups))
    return user


def _capabilities(security: Security, available: Sequence[str]) -> OciSpec:
    if security.privileged:
        names = tuple(available)
    else:
        start: Sequence[str] = _DEFAULT_CAPABILITIES
        if _ALL in security.added_capabilities:
            start = tuple(available)
        if _ALL in security.dropped_capabilities:
            start = ()
        added = [each for each in security.added_capabilities if each != _ALL]
        kept = [each for each in start if each not in security.dropped_capabilities or each in added]
        names = tuple(dict.fromkeys((*kept, *added)))
    given = [f"{_PREFIX}{name}" for name in names]
    # A user other than root has none of them in effect, as with every engine.
    held = given if not security.run_as_user else []
    return {"bounding": given, "effective": held, "permitted": held}


def _device_rules(devices: Sequence[FoundDevice], security: Security) -> list[OciSpec]:
    if security.privileged:
        return [{"allow": True, "access": "rwm"}]
    standard = [
        {"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"}
        for major, minor in _STANDARD_NODES
    ]
    pts = {"allow": True, "type": "c", "major": _PTS_MAJOR, "access": "rwm"}
    own = [
        {"allow": True, "type": each.type, "major": each.major, "minor": each.minor, "access": each.permissions}
        for each in devices
        if each.type != "p"
    ]
    return [{"allow": False, "access": "rwm"}, *_ANY_MKNOD, *standard, pts, *own]


def _node(device: FoundDevice) -> OciSpec:
    return {
        "path": device.path,
        "type": device.type,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": device.uid,
        "gid": device.gid,
    }


def _namespaces(around: ContainerSurroundings) -> list[OciSpec]:
    shared = around.shares.namespaces
    own: list[OciSpec] = [{"type": kind} for kind in _NAMESPACES if kind not in shared]
    return own + [{"type": kind, "path": path} for kind, path in shared.items() if path != HOST]


def _mounts(spec: ContainerSpec, around: ContainerSurroundings) -> list[OciSpec]:
    """The mounts by depth, so that none hides another; of two at one place the pod's own wins, as with containerd.

    A pod that mounts a directory at /dev gets nothing of ours below it, but for the pod's shared memory: in the host's
    /dev, and in a read-only one at all, there may be no place for it. Source: containerd 2 ``internal/cri/opts``.
    """
    access = "rw" if spec.container.security.privileged else "ro"
    beside = ["ro"] if spec.container.security.read_only_root else []  # in an image they are of the root
    own = [
        _own("/proc", "proc", "nosuid", "noexec", "nodev"),
        _own("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _own("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
        _shm(around.shares),
        _own("/dev/mqueue", "mqueue", "nosuid", "noexec", "nodev"),
        _own("/sys", "sysfs", "nosuid", "noexec", "nodev", access),
        _own("/sys/fs/cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", access),
        _own("/run", "tmpfs", "nosuid", "nodev", "mode=755", "size=65536k", *beside),
        _own("/tmp", "tmpfs", "nosuid", "nodev", "mode=1777", *beside),
    ]
    given = {
        clean(mount.container_path): _bind(mount)
        for mount in (*(each.mount for each in around.shares.files), *spec.edits.mounts, *spec.mounts)
    }
    placed = {clean(each["destination"]): each for each in (*around.root_mounts, *own)}
    if "/dev" in given:
        placed = {path: each for path, each in placed.items() if not path.startswith("/dev/") or each["type"] == "bind"}
    placed |= given
    for path in map(clean, spec.untrusted_paths):
        placed[path] = placed[path] | {"options": [*placed[path]["options"], "nosuid", "nodev"]}
    return sorted(placed.values(), key=depth)


def _shm(shares: PodShares) -> OciSpec:
    if not shares.shm:
        return _own("/dev/shm", "tmpfs", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k")
    options = ["rbind", "rprivate", "nosuid", "noexec", "nodev"]
    return {"destination": "/dev/shm", "type": "bind", "source": shares.shm, "options": options}


def _own(destination: str, kind: str, *options: str) -> OciSpec:
    return {"destination": destination, "type": kind, "source": kind, "options": list(options)}


def _bind(mount: Mount) -> OciSpec:
    options = ["rbind", "rprivate", "ro" if mount.read_only else "rw"]
    return {"destination": mount.container_path, "type": "bind", "source": mount.host_path, "options": options}
