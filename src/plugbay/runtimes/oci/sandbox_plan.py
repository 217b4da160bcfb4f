"""The plan of a pod's sandbox: decisions alone, without their effects."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Final

from plugbay.cni.chain import Attachment
from plugbay.errors import SandboxFailed
from plugbay.kernel.namespaces import NamespaceKind
from plugbay.model.edits import Mount
from plugbay.runtimes.hosts import hostname
from plugbay.runtimes.oci.sandbox_records import SandboxRecord, sandbox_id
from plugbay.runtimes.oci.shared_directory import IPC, KINDS, SHM, UTS
from plugbay.runtimes.oci.shares import HOST, PodFile, PodShares
from plugbay.runtimes.oci.sysctls import check_sysctls
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec

_HOST_SHM: Final = "/dev/shm"


class Rights(Enum):
    """The rights of the node."""

    ROOT = "root"
    USER = "user"
    """An ordinary user cannot mount anything to keep a namespace, so that each container has its own."""


def check_wishes(spec: SandboxSpec, *, network: Network, rights: Rights) -> None:
    """Refuse a sandbox that cannot be made.

    Args:
        network: the one that the pod gets.

    Raises:
        SandboxFailed: the pod asks for it.
    """
    if spec.shares_processes:
        raise SandboxFailed("spec.shareProcessNamespace: the oci runtime gives each container a PID namespace")
    if rights is Rights.USER:
        for kind, own in ((HostNamespace.PID, "a PID"), (HostNamespace.IPC, "an IPC")):
            if kind in spec.host_namespaces:
                problem = f"spec.{kind.field}: a node without root rights gives each container {own} namespace"
                raise SandboxFailed(problem)
    kinds = [KINDS[name] for name in own_kinds(spec, rights)]
    if network is not Network.HOST:
        kinds.append(NamespaceKind.NETWORK)
    check_sysctls(spec.pod.spec.sysctls, own=kinds)


def own_kinds(spec: SandboxSpec, rights: Rights) -> tuple[str, ...]:
    """Namespaces that the pod's containers share, besides the network."""
    if rights is Rights.USER:
        return ()
    return tuple(name for name in KINDS if name not in host_kinds(spec))


def host_kinds(spec: SandboxSpec) -> tuple[str, ...]:
    """Namespaces that the pod has of the host, besides the network."""
    kinds = tuple(kind.value for kind in HostNamespace if kind in spec.host_namespaces)
    return (*kinds, UTS) if spec.network is Network.HOST else kinds


def planned_record(
    spec: SandboxSpec, *, boot_id: str, shared: Path, rights: Rights, machine_name: str
) -> SandboxRecord:
    """The record of a sandbox that will be made, but for its network.

    Args:
        shared: the directory of all that pods' containers share.
        machine_name: the host name of pods that have the host's UTS namespace.
    """
    name = sandbox_id(spec.pod.uid)
    kinds = host_kinds(spec)
    return SandboxRecord(
        spec.pod.uid,
        boot_id,
        name,
        shared=str(shared / name),
        hostname=machine_name if UTS in kinds else hostname(spec.pod.spec.hostname or spec.pod.name),
        own_kinds=own_kinds(spec, rights),
        host_kinds=kinds,
    )


def shares_in(record: SandboxRecord) -> PodShares:
    """The parts of a sandbox that containers are given."""
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
    """The sandbox in the words of network plugins."""
    return Attachment(record.container_id, record.netns, args=record.args, capabilities=record.capabilities)
