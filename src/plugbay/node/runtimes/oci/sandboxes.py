"""Sandboxes of the oci runtime: what the pod's containers share, their network that CNI has set up, and their cgroup.

A file per sandbox tells what there is to undo. It is written before anything is made, so that a node that is killed
at any moment leaves nothing that its successor does not know of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from plugbay.cni.capabilities import unserved
from plugbay.cni.chain import Attachment
from plugbay.errors import (
    InvalidBandwidth,
    InvalidNetworkConfig,
    NetworkNotFound,
    PlugbayError,
    SandboxFailed,
)
from plugbay.kernel.boot import read_boot_id
from plugbay.kernel.cgroups import clear_cgroup, end_processes
from plugbay.kernel.namespaces import NamespaceKind
from plugbay.kernel.netns import is_netns, make_netns, remove_netns
from plugbay.model.edits import Mount
from plugbay.model.ids import PodUid
from plugbay.model.resolution import pod_dns
from plugbay.node.network import PodNetwork, pod_args
from plugbay.node.network_request import capabilities_of, told_capabilities
from plugbay.node.runtimes.cri.config import hostname
from plugbay.node.runtimes.oci.confinement import pod_cgroup
from plugbay.node.runtimes.oci.pod_files import HostFiles, pod_files, wanted_files
from plugbay.node.runtimes.oci.sandbox_records import SandboxRecord, SandboxRecords, sandbox_id
from plugbay.node.runtimes.oci.shared_directory import (
    IPC,
    KINDS,
    SHM,
    UTS,
    is_whole,
    make_shared,
    remove_shared,
    write_files,
)
from plugbay.node.runtimes.oci.shares import HOST, UNSHARED, PodFile, PodShares
from plugbay.node.runtimes.oci.sysctls import check_sysctls, set_sysctls
from plugbay.node.runtimes.sandboxes import Network, SandboxSpec, no_handler

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENDING_S: Final = 10.0
_HOST_SHM: Final = "/dev/shm"
_HOST_KINDS: Final = {"hostPID": "pid", "hostIPC": IPC}
"""Namespaces by the fields of a pod that ask for the host's."""


@dataclass(frozen=True, slots=True)
class SandboxPlaces:
    """
    Attributes:
        records: holds the files.
        namespaces: holds the network namespaces.
        shared: holds what else containers share.
        cgroup_parent: begins the names of cgroups.
    """

    records: Path
    namespaces: Path
    shared: Path
    cgroup_parent: str


class Rights(Enum):
    """What the node may do."""

    ROOT = "root"
    USER = "user"
    """It cannot mount anything, so that nothing keeps namespaces: each container has its own."""


class OciSandboxes:
    """For `plugbay.node.runtimes.sandboxes.Sandboxes`.

    Args:
        network: where pods are put that are not on the host's network, and taken off again.
        default: the network of pods that do not choose.
        has_handler: whether there is a handler for a runtime class.
        host: files that pods begin with.
    """

    def __init__(
        self,
        places: SandboxPlaces,
        network: PodNetwork,
        *,
        default: Network,
        has_handler: Callable[[str], bool],
        host: HostFiles,
        rights: Rights = Rights.ROOT,
    ) -> None:
        self._places = places
        self._records = SandboxRecords(places.records)
        self._network = network
        self._default = default
        self._has_handler = has_handler
        self._host = host
        self._rights = rights
        self._boot_id = read_boot_id(_PROC)
        # As long as somebody holds or awaits it: each container of a pod may want the sandbox, at once.
        self._in_work: WeakValueDictionary[PodUid, asyncio.Lock] = WeakValueDictionary()

    def shares_of(self, pod: PodUid) -> PodShares:
        """What a pod's containers share, nothing if it has no sandbox. Reads a file."""
        record = self._records.read(pod)
        return _shares(record) if record is not None else UNSHARED

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        if not self._has_handler(spec.runtime_class):
            raise no_handler(spec.runtime_class)
        self._check(spec)
        async with self._lock(spec.pod_uid):
            return await self._run(spec)

    async def stop(self, pod: PodUid) -> None:
        """All of it: what is left of containers is not in here."""
        await self.remove(pod)

    async def remove(self, pod: PodUid) -> None:
        async with self._lock(pod):
            await self._remove(pod)

    async def pods(self) -> frozenset[PodUid]:
        records = await asyncio.to_thread(self._records.read_all)
        return frozenset(each.pod_uid for each in records)

    def _lock(self, pod: PodUid) -> asyncio.Lock:
        return self._in_work.setdefault(pod, asyncio.Lock())

    async def _run(self, spec: SandboxSpec) -> tuple[str, ...]:
        record = await asyncio.to_thread(self._records.read, spec.pod_uid)
        if record is not None and await asyncio.to_thread(self._is_on_its_network, record):
            if not await asyncio.to_thread(_is_whole, record):
                await self._mend(spec, record)
            return record.ips
        if record is not None:
            await self._remove(spec.pod_uid)
        if Network.HOST not in (spec.network, self._default):
            return await self._run_on_network(spec)
        record = self._new_record(spec)
        try:
            await asyncio.to_thread(self._make_beside, spec, record)
        except SandboxFailed as error:
            raise await self._given_up(record, str(error)) from error
        except (PlugbayError, OSError) as error:
            raise await self._given_up(record, f"cannot make the sandbox: {error}") from error
        return ()

    async def _mend(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        """Make anew what containers share besides the network. What runs keeps what it has, and its network."""
        logger.warning("pod %s has lost something that its containers share; it is made anew", spec.pod_uid)
        anew = msgspec.structs.replace(
            self._new_record(spec),
            netns=record.netns,
            args=record.args,
            capabilities=record.capabilities,
            ips=record.ips,
        )
        try:
            await asyncio.to_thread(self._make_beside, spec, anew)
        except SandboxFailed:
            raise
        except (PlugbayError, OSError) as error:
            raise SandboxFailed(f"cannot mend the sandbox: {error}") from error

    async def _remove(self, pod: PodUid) -> None:
        """What still runs ends first: a network is not taken away from under a process."""
        record = await asyncio.to_thread(self._records.read, pod)
        if record is None:
            return
        cgroup = pod_cgroup(self._places.cgroup_parent, pod)
        try:
            await end_processes(cgroup, proc_root=_PROC, within_s=_ENDING_S)
            if record.netns:
                await self._remove_network(record)
            if record.shared:
                await asyncio.to_thread(remove_shared, Path(record.shared))
            await clear_cgroup(cgroup, proc_root=_PROC, within_s=_ENDING_S)
            await asyncio.to_thread(self._records.remove, pod)
        except TimeoutError as error:
            raise SandboxFailed(f"processes of pod {pod} do not end although they were killed") from error
        except (PlugbayError, OSError) as error:
            raise SandboxFailed(f"cannot remove the sandbox of pod {pod}: {error}") from error

    async def _remove_network(self, record: SandboxRecord) -> None:
        netns = Path(record.netns)
        if not await asyncio.to_thread(_is_there, netns):
            await asyncio.to_thread(remove_netns, netns)  # a file without a namespace, at which plugins would fail
        await self._network.remove(_attachment(record))
        await asyncio.to_thread(remove_netns, netns)

    async def _run_on_network(self, spec: SandboxSpec) -> tuple[str, ...]:
        """What can be wrong with the request is looked at first; then each thing is made that was recorded before."""
        name = sandbox_id(spec.pod_uid)
        try:
            capabilities = capabilities_of(spec.annotations, spec.ports)
            if lacking := unserved(await self._network.load(), capabilities):
                problem = f"the pod network has no plugin with the capability {', '.join(lacking)}, which the pod needs"
                raise SandboxFailed(problem)
        except InvalidBandwidth as error:
            raise SandboxFailed(str(error)) from error
        except (NetworkNotFound, InvalidNetworkConfig) as error:
            raise SandboxFailed(
                f"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:{error}"
            ) from error
        dns = pod_dns(spec.dns_policy, spec.dns, host=self._host.dns)
        cgroup = f"/{pod_cgroup(self._places.cgroup_parent, spec.pod_uid)}"
        capabilities |= told_capabilities(spec.annotations, dns=dns, cgroup=cgroup)
        args = pod_args(namespace=spec.namespace, name=spec.pod, uid=spec.pod_uid, container_id=name)
        netns = self._places.namespaces / name
        record = msgspec.structs.replace(self._new_record(spec), netns=str(netns), args=args, capabilities=capabilities)
        try:
            await asyncio.to_thread(self._make_for_network, spec, record)
            addresses = await self._network.add(_attachment(record))
            ips = tuple(str(each) for each in addresses.ips)
            await asyncio.to_thread(self._complete, spec, msgspec.structs.replace(record, ips=ips))
        except SandboxFailed as error:
            raise await self._given_up(record, str(error)) from error
        except (PlugbayError, OSError) as error:
            raise await self._given_up(record, f'failed to setup network for sandbox "{name}": {error}') from error
        return ips

    def _check(self, spec: SandboxSpec) -> None:
        """Refuse what cannot be.

        Raises:
            SandboxFailed: the pod asks for it.
        """
        if "shareProcessNamespace" in spec.shared:
            raise SandboxFailed("spec.shareProcessNamespace: the oci runtime gives each container a PID namespace")
        if self._rights is Rights.USER:
            for field in (each for each in _HOST_KINDS if each in spec.shared):
                kind = _HOST_KINDS[field].upper()
                problem = f"spec.{field}: a node without root rights gives each container an {kind} namespace"
                raise SandboxFailed(problem.replace("an PID", "a PID"))
        own = [KINDS[name] for name in self._own_kinds(spec)]
        if Network.HOST not in (spec.network, self._default):
            own.append(NamespaceKind.NETWORK)
        check_sysctls(spec.sysctls, own=own)

    def _own_kinds(self, spec: SandboxSpec) -> tuple[str, ...]:
        if self._rights is Rights.USER:
            return ()
        return tuple(name for name in KINDS if name not in _host_kinds(spec))

    def _new_record(self, spec: SandboxSpec) -> SandboxRecord:
        name = sandbox_id(spec.pod_uid)
        host_kinds = _host_kinds(spec)
        return SandboxRecord(
            spec.pod_uid,
            self._boot_id,
            name,
            shared=str(self._places.shared / name),
            hostname=socket.gethostname() if UTS in host_kinds else hostname(spec.hostname or spec.pod),
            own_kinds=self._own_kinds(spec),
            host_kinds=host_kinds,
        )

    def _make_beside(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        """All but the network; the record is written once, as every start of a pod waits for the disk.

        Something may be left of a node that had mounts of its own, as a service may. What runs keeps what it has.
        """
        remove_shared(Path(record.shared))
        texts = self._texts(spec, record)
        self._records.write(_with_files(record, spec, texts))
        self._make_shared(spec, record)
        write_files(Path(record.shared), texts)

    def _make_for_network(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        """What the network is put into, and what does not need its addresses."""
        self._records.write(record)
        make_netns(Path(record.netns), proc_root=_PROC)
        self._make_shared(spec, record)

    def _complete(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        """The network is there: the pod's files can tell of it, and the record says that all is whole."""
        texts = self._texts(spec, record)
        write_files(Path(record.shared), texts)
        self._records.write(_with_files(record, spec, texts))

    def _make_shared(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        directory = Path(record.shared)
        make_shared(directory, kinds=record.own_kinds, hostname=record.hostname, proc_root=_PROC)
        namespaces = {KINDS[name]: directory / name for name in record.own_kinds}
        if record.netns:
            namespaces[NamespaceKind.NETWORK] = Path(record.netns)
        set_sysctls(spec.sysctls, namespaces=namespaces, proc_root=_PROC)

    def _texts(self, spec: SandboxSpec, record: SandboxRecord) -> dict[str, str]:
        name = "" if UTS in record.host_kinds else record.hostname
        return pod_files(spec, ips=record.ips, hostname=name, host=self._host)

    async def _given_up(self, record: SandboxRecord, problem: str) -> SandboxFailed:
        """What there is of it is removed; whatever stays is, before the next try."""
        with contextlib.suppress(SandboxFailed):
            await self._remove(record.pod_uid)
        return SandboxFailed(problem)

    def _is_on_its_network(self, record: SandboxRecord) -> bool:
        if record.boot_id != self._boot_id:
            return False
        return not record.netns or (bool(record.ips) and _is_there(Path(record.netns)))


def _is_there(netns: Path) -> bool:
    try:
        return is_netns(netns)
    except OSError:
        return False


def _is_whole(record: SandboxRecord) -> bool:
    return not record.shared or is_whole(Path(record.shared), kinds=record.own_kinds, files=record.files)


def _with_files(record: SandboxRecord, spec: SandboxSpec, names: Iterable[str]) -> SandboxRecord:
    wanted = wanted_files(spec)
    return msgspec.structs.replace(record, files={each: wanted.get(each, "") for each in names})


def _host_kinds(spec: SandboxSpec) -> tuple[str, ...]:
    kinds = tuple(kind for field, kind in _HOST_KINDS.items() if field in spec.shared)
    return (*kinds, UTS) if spec.network is Network.HOST else kinds


def _shares(record: SandboxRecord) -> PodShares:
    directory = Path(record.shared)
    namespaces = dict.fromkeys(record.host_kinds, HOST)
    namespaces |= {name: str(directory / name) for name in record.own_kinds}
    if record.netns:
        namespaces["network"] = record.netns
    shm = _HOST_SHM if IPC in record.host_kinds else str(directory / SHM) if IPC in record.own_kinds else ""
    files = (PodFile(Mount(f"/etc/{name}", str(directory / name)), field) for name, field in record.files.items())
    return PodShares(namespaces, shm, record.hostname, tuple(files))


def _attachment(record: SandboxRecord) -> Attachment:
    return Attachment(record.container_id, record.netns, args=record.args, capabilities=record.capabilities)
