"""A container's OCI spec for an engine that has no root rights. Pure.

The container's root is the user of the node, in a user namespace that knows no other user. Rights of the machine's root
are left out: cgroups, and with them limits and device rules; device nodes are shown by bind mounts, and their mode says
which users may open them.

Source: Linux ``user_namespaces(7)``; the OCI runtime specification 1.0.2 ``config-linux.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.cdi.inject import OciSpec
from plugbay.errors import ContainerStartError
from plugbay.model.security import Security
from plugbay.values import dataclass

_SYS: Final = "/sys"
_ONLY_FOR_ROOT: Final = frozenset({"cgroup"})
"""Kinds of mounts."""


@dataclass(frozen=True, slots=True)
class FileOwner:
    """The user of the node, which is root in containers."""

    uid: int
    gid: int


def check_rootless(security: Security) -> None:
    """Refuse a container that wants a user that its user namespace does not know.

    Raises:
        ContainerStartError: the container wants such a user.
    """
    if security.run_as_user or security.run_as_group or security.supplemental_groups:
        problem = "a node without root rights knows one user and one group for containers, which are root in them"
        raise ContainerStartError("CreateContainerError", problem)


def made_rootless(config: OciSpec, owner: FileOwner, *, host_paths: Mapping[str, str]) -> OciSpec:
    """``config`` without what takes root rights.

    Args:
        host_paths: where on the host the device nodes are, by their paths in the container; others are where they
            should appear.
    """
    linux = config["linux"]
    process = config["process"]
    devices = linux.get("devices", [])
    kept = {key: value for key, value in linux.items() if key not in ("devices", "resources", "cgroupsPath")}
    return config | {
        "process": process | {"user": {"uid": 0, "gid": 0}},
        "mounts": [
            *(_possible(each) for each in config["mounts"] if each["type"] not in _ONLY_FOR_ROOT),
            *(_shown(each["path"], host_paths.get(each["path"], each["path"])) for each in devices),
        ],
        "linux": kept
        | {
            "namespaces": [*linux["namespaces"], {"type": "user"}],
            "uidMappings": [{"containerID": 0, "hostID": owner.uid, "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": owner.gid, "size": 1}],
        },
    }


def _possible(mount: OciSpec) -> OciSpec:
    """The mount without what a user namespace forbids: a fresh sysfs needs the network namespace, and terminals have no
    group here.

    Mounts below a directory have to come along: without root rights a process may not look under them.
    """
    if mount["destination"] == _SYS and mount["type"] == "sysfs":
        return mount | {"type": "bind", "source": _SYS, "options": ["rbind", "nosuid", "noexec", "nodev", "ro"]}
    if mount["type"] == "bind":
        return mount | {"options": ["rbind" if each == "bind" else each for each in mount["options"]]}
    if mount["type"] == "devpts":
        return mount | {"options": [each for each in mount["options"] if not each.startswith("gid=")]}
    return mount


def _shown(path: str, host_path: str) -> OciSpec:
    return {"destination": path, "type": "bind", "source": host_path, "options": ["bind", "rprivate", "rw", "nosuid"]}
