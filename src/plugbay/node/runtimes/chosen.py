"""A runtime as the node uses it, and the parts that several runtimes need."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.kernel.files import make_private
from plugbay.model.resolution import DnsConfig
from plugbay.node.access.peers import PeerCheck, containers_are_refused
from plugbay.node.config import NodeConfig
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.runtimes.hosts import parse_resolv_conf
from plugbay.runtimes.pod_ports import PodPorts
from plugbay.runtimes.port import ContainerRuntime
from plugbay.runtimes.sandboxes import Sandboxes
from plugbay.values import dataclass

PROC: Final = Path("/proc")
_HOSTS: Final = Path("/etc/hosts")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class ChosenRuntime:
    """The runtime that a node uses, and what comes with it.

    Attributes:
        about: the engine that runs the containers, and those that were passed over.
        absences: tells when the runtime cannot be asked, for `follow_absences`; None if it always can be.
        version: the version of the container engine; empty if the node runs the containers itself.
        sub_paths: how containers are given parts of volumes.
        refusal: says why the peer of a connection may not talk to the node; empty if it may.
    """

    runtime: ContainerRuntime
    sandboxes: Sandboxes
    ports: PodPorts
    about: str
    absences: Callable[[], AsyncIterator[str]] | None = None
    version: str = ""
    sub_paths: SubPathMeans = SubPathMeans.OPEN
    refusal: PeerCheck = lambda connection: ""


def holds_anything(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())


def refuse_foreign(containers: Path, *, runtime: str) -> None:
    """Neither runtime can look after the other one's containers."""
    if holds_anything(containers):
        problem = f"holds containers of the {runtime} runtime; delete their pods with --runtime {runtime} first"
        raise PathUnusable(str(containers), problem)


def ensure_private(directory: Path) -> None:
    try:
        make_private(directory)
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be closed to other users: {error.strerror}") from error


def sub_path_means() -> SubPathMeans:
    return SubPathMeans.NAMED if os.geteuid() else SubPathMeans.BOUND


def cgroup_prefix(config: NodeConfig) -> str:
    """Nodes on one machine must not meet below the cgroup roots, where pod UIDs alone may be equal."""
    return f"plugbay-{hashlib.sha256(os.fsencode(config.real_root)).hexdigest()[:8]}"


def peer_check(config: NodeConfig) -> PeerCheck:
    """An engine with the systemd driver writes the names of cgroups in its own way."""
    prefix = cgroup_prefix(config)
    prefixes = (f"{prefix}-", f"{prefix.replace('-', '_')}-")
    return containers_are_refused(cgroup_prefixes=prefixes, proc_root=PROC)


def host_names() -> str:
    try:
        return _HOSTS.read_text(errors="replace")
    except OSError:
        return ""


def host_dns() -> DnsConfig | None:
    try:
        return parse_resolv_conf(_RESOLV_CONF.read_text(errors="replace"))
    except OSError:
        return None


def oci_containers(config: NodeConfig) -> Path:
    """The directory of the oci runtime's containers."""
    return config.oci_dir / "containers"
