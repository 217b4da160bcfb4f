"""What a pod's sandbox is to be, and what is to be made for it: decisions alone."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.cni.chain import Attachment
from plugbay.errors import SandboxFailed
from plugbay.kernel.namespaces import NamespaceKind
from plugbay.model.edits import Mount
from plugbay.node.runtimes.hosts import hostname
from plugbay.node.runtimes.oci.sandbox_records import SandboxRecord, sandbox_id
from plugbay.node.runtimes.oci.shared_directory import IPC, KINDS, SHM, UTS
from plugbay.node.runtimes.oci.shares import HOST, PodFile, PodShares
from plugbay.node.runtimes.oci.sysctls import check_sysctls
from plugbay.node.runtimes.sandboxes import Network, SandboxSpec

_HOST_SHM: Final = "/dev/shm"
_HOST_KINDS: Final = {"hostPID": "pid", "hostIPC": IPC}
"""Namespaces by the fields of a pod that ask for the host's."""


class Rights(Enum):
    """What the node may do."""

    ROOT = "root"
    USER = "user"
    """It cannot mount anything, so that nothing keeps namespaces: each container has its own."""


def check_wishes(spec: SandboxSpec, *, network: Network, rights: Rights) -> None:
    """Refuse what cannot be.

    Args:
        network: the one that the pod gets.

    Raises:
        SandboxFailed: the pod asks for it.
    """
    if "shareProcessNamespace" in spec.shared:
        raise SandboxFailed("spec.shareProcessNamespace: the oci runtime gives each container a PID namespace")
    if rights is Rights.USER:
        for field, own in (("hostPID", "a PID"), ("hostIPC", "an IPC")):
            if field in spec.shared:
                problem = f"spec.{field}: a node without root rights gives each container {own} namespace"
                raise SandboxFailed(problem)
    kinds = [KINDS[name] for name in own_kinds(spec, rights)]
    if network is not Network.HOST:
        kinds.append(NamespaceKind.NETWORK)
    check_sysctls(spec.sysctls, own=kinds)


def own_kinds(spec: SandboxSpec, rights: Rights) -> tuple[str, ...]:
    """Namespaces that the pod's containers share, besides the network."""
    if rights is Rights.USER:
        return ()
    return tuple(name for name in KINDS if name not in host_kinds(spec))


def host_kinds(spec: SandboxSpec) -> tuple[str, ...]:
    """Namespaces that the pod has of the host, besides the network."""
    kinds = tuple(kind for field, kind in _HOST_KINDS.items() if field in spec.shared)
    return (*kinds, UTS) if spec.network is Network.HOST else kinds


def planned_record(
    spec: SandboxSpec, *, boot_id: str, shared: Path, rights: Rights, machine_name: str
) -> SandboxRecord:
    """What will be made, but for the network.

    Args:
        shared: the directory of all that pods' containers share.
        machine_name: what pods are called that have the host's UTS namespace.
    """
    name = sandbox_id(spec.pod_uid)
    kinds = host_kinds(spec)
    return SandboxRecord(
        spec.pod_uid,
        boot_id,
        name,
        shared=str(shared / name),
        hostname=machine_name if UTS in kinds else hostname(spec.hostname or spec.pod),
        own_kinds=own_kinds(spec, rights),
        host_kinds=kinds,
    )


def shares_in(record: SandboxRecord) -> PodShares:
    """What containers are given of it."""
    directory = Path(record.shared)
    namespaces = dict.fromkeys(record.host_kinds, HOST)
    namespaces |= {name: str(directory / name) for name in record.own_kinds}
    if record.netns:
        namespaces["network"] = record.netns
    shm = _HOST_SHM if IPC in record.host_kinds else str(directory / SHM) if IPC in record.own_kinds else ""
    files = (
        PodFile(Mount(directory / name, container_path=f"/etc/{name}"), field) for name, field in record.files.items()
    )
    return PodShares(namespaces, shm, record.hostname, tuple(files))


def attachment_of(record: SandboxRecord) -> Attachment:
    """What network plugins are told of it."""
    return Attachment(record.container_id, record.netns, args=record.args, capabilities=record.capabilities)
