"""Sandboxes of the oci runtime: what the pod's containers share, their network that CNI has set up, and their cgroup.

A file per sandbox tells what there is to undo. It is written before anything is made, so that a node that is killed
at any moment leaves nothing that its successor does not know of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from plugbay.cni.capabilities import unserved
from plugbay.errors import (
    ContainerStartError,
    InvalidBandwidth,
    InvalidNetworkConfig,
    NamespaceUnusable,
    NetworkNotFound,
    PlugbayError,
    PortUnreachable,
    SandboxFailed,
)
from plugbay.kernel.boot import read_boot_id
from plugbay.kernel.cgroups import clear_cgroup, end_processes
from plugbay.kernel.namespaces import NamespaceKind
from plugbay.kernel.netns import is_netns, make_netns, remove_netns
from plugbay.model.ids import PodUid
from plugbay.model.resolution import pod_dns
from plugbay.runtimes.oci.confinement import pod_cgroup
from plugbay.runtimes.oci.network import PodNetwork, pod_args
from plugbay.runtimes.oci.network_request import capabilities_of, told_capabilities
from plugbay.runtimes.oci.pod_files import HostFiles, pod_files, wanted_files
from plugbay.runtimes.oci.sandbox_plan import (
    Rights,
    attachment_of,
    check_wishes,
    planned_record,
    shares_in,
)
from plugbay.runtimes.oci.sandbox_records import SandboxRecord, SandboxRecords, sandbox_id
from plugbay.runtimes.oci.shared_directory import (
    KINDS,
    UTS,
    is_whole,
    make_shared,
    remove_shared,
    write_files,
)
from plugbay.runtimes.oci.shares import PodShares
from plugbay.runtimes.oci.sysctls import set_sysctls
from plugbay.runtimes.pod_ports import PodConnection, connect_loopback
from plugbay.runtimes.sandboxes import Network, SandboxSpec, no_handler
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENDING_S: Final = 10.0
"""The deadline for the end of killed processes, unless the machine is overloaded."""


@dataclass(frozen=True, slots=True)
class SandboxPlaces:
    """The places of sandboxes: three directories and a name.

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


class OciSandboxes:
    """The `plugbay.runtimes.sandboxes.Sandboxes` of the oci runtime.

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
        # A lock lives as long as it is held or awaited: each container of a pod may want the sandbox, at once.
        self._in_work: WeakValueDictionary[PodUid, asyncio.Lock] = WeakValueDictionary()

    def shares_of(self, pod: PodUid) -> PodShares:
        """The parts of the sandbox that a pod's containers share. Reads a file.

        Raises:
            ContainerStartError: the pod has no sandbox; a container would be on the host's network.
        """
        try:
            record = self._records.read(pod)
        except SandboxFailed as error:
            raise ContainerStartError("CreateContainerError", str(error)) from error
        if record is None or not record.boot_id:
            raise ContainerStartError("CreateContainerError", f"pod {pod} has no sandbox")
        return shares_in(record)

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        if not self._has_handler(spec.pod.spec.runtime_class):
            raise no_handler(spec.pod.spec.runtime_class)
        check_wishes(spec, network=self._network_of(spec), rights=self._rights)
        async with self._lock(spec.pod.uid):
            return await self._run(spec)

    async def stop(self, pod: PodUid) -> None:
        """All of it: what is left of containers is not in here."""
        await self.remove(pod)

    async def remove(self, pod: PodUid) -> None:
        async with self._lock(pod):
            await self._remove(pod)

    async def pods(self) -> frozenset[PodUid]:
        return await asyncio.to_thread(self._records.pods)

    @asynccontextmanager
    async def connect(self, pod: PodUid, port: int) -> AsyncIterator[PodConnection]:
        try:
            record = await asyncio.to_thread(self._records.read, pod)
        except SandboxFailed as error:
            raise PortUnreachable(port, str(error)) from error
        if record is None or not record.boot_id:
            raise PortUnreachable(port, f"pod {pod} has no sandbox")
        try:
            async with connect_loopback(port, netns=Path(record.netns) if record.netns else None) as connection:
                yield connection
        except NamespaceUnusable as error:
            raise PortUnreachable(port, str(error)) from error

    def _network_of(self, spec: SandboxSpec) -> Network:
        return self._default if spec.network is Network.POD else Network.HOST

    def _lock(self, pod: PodUid) -> asyncio.Lock:
        return self._in_work.setdefault(pod, asyncio.Lock())

    async def _run(self, spec: SandboxSpec) -> tuple[str, ...]:
        record = await asyncio.to_thread(self._records.read, spec.pod.uid)
        if record is not None and await asyncio.to_thread(self._is_on_its_network, record):
            if not await asyncio.to_thread(_is_whole, record):
                await self._mend(spec, record)
            return record.ips
        if record is not None:
            await self._remove(spec.pod.uid)
        if self._network_of(spec) is Network.POD:
            return await self._run_on_network(spec)
        record = self._planned(spec)
        try:
            await asyncio.to_thread(self._make_beside, spec, record)
        except SandboxFailed as error:
            raise await self._given_up(record, str(error)) from error
        except (PlugbayError, OSError) as error:
            raise await self._given_up(record, f"cannot make the sandbox: {error}") from error
        return ()

    async def _mend(self, spec: SandboxSpec, record: SandboxRecord) -> None:
        """Make the things anew that containers share besides the network. Running containers keep what they have."""
        logger.warning("pod %s has lost something that its containers share; it is made anew", spec.pod.uid)
        anew = msgspec.structs.replace(
            self._planned(spec),
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
        """End what still runs, then undo the sandbox: a network is not taken away from under a process."""
        record = await asyncio.to_thread(self._records.read, pod)
        if record is None:
            return
        if not record.boot_id:
            record = await asyncio.to_thread(self._whole, record)
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

    def _whole(self, record: SandboxRecord) -> SandboxRecord:
        """The record to undo in place of a damaged one: everything that a sandbox can have, where it always lies."""
        name = sandbox_id(record.pod_uid)
        netns = self._places.namespaces / name
        return msgspec.structs.replace(
            record, netns=str(netns) if netns.exists() else "", shared=str(self._places.shared / name)
        )

    async def _remove_network(self, record: SandboxRecord) -> None:
        netns = Path(record.netns)
        if not await asyncio.to_thread(_is_there, netns):
            await asyncio.to_thread(remove_netns, netns)  # a file without a namespace, at which plugins would fail
        await self._network.remove(attachment_of(record))
        await asyncio.to_thread(remove_netns, netns)

    async def _run_on_network(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Check the request first; then record each part before it is made."""
        name = sandbox_id(spec.pod.uid)
        try:
            capabilities = capabilities_of(spec.pod.annotations, spec.ports)
            if lacking := unserved(await self._network.load(), capabilities):
                problem = f"the pod network has no plugin with the capability {', '.join(lacking)}, which the pod needs"
                raise SandboxFailed(problem)
        except InvalidBandwidth as error:
            raise SandboxFailed(str(error)) from error
        except (NetworkNotFound, InvalidNetworkConfig) as error:
            raise SandboxFailed(
                f"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:{error}"
            ) from error
        dns = pod_dns(spec.pod.spec.dns_policy, spec.pod.spec.dns, host=self._host.dns)
        cgroup = f"/{pod_cgroup(self._places.cgroup_parent, spec.pod.uid)}"
        capabilities |= told_capabilities(spec.pod.annotations, dns=dns, cgroup=cgroup)
        args = pod_args(namespace=spec.pod.namespace, name=spec.pod.name, uid=spec.pod.uid, container_id=name)
        netns = self._places.namespaces / name
        record = msgspec.structs.replace(self._planned(spec), netns=str(netns), args=args, capabilities=capabilities)
        try:
            await asyncio.to_thread(self._make_for_network, spec, record)
            addresses = await self._network.add(attachment_of(record))
            ips = tuple(str(each) for each in addresses.ips)
            await asyncio.to_thread(self._complete, spec, msgspec.structs.replace(record, ips=ips))
        except SandboxFailed as error:
            raise await self._given_up(record, str(error)) from error
        except (PlugbayError, OSError) as error:
            raise await self._given_up(record, f'failed to setup network for sandbox "{name}": {error}') from error
        return ips

    def _planned(self, spec: SandboxSpec) -> SandboxRecord:
        return planned_record(
            spec,
            boot_id=self._boot_id,
            shared=self._places.shared,
            rights=self._rights,
            machine_name=socket.gethostname(),
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
        """Make the namespaces for the network, and the files that do not need its addresses."""
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
        set_sysctls(spec.pod.spec.sysctls, namespaces=namespaces, proc_root=_PROC)

    def _texts(self, spec: SandboxSpec, record: SandboxRecord) -> dict[str, str]:
        name = "" if UTS in record.host_kinds else record.hostname
        return pod_files(spec, ips=record.ips, hostname=name, host=self._host)

    async def _given_up(self, record: SandboxRecord, problem: str) -> SandboxFailed:
        """Remove a half-made sandbox; parts that stay are removed before the next try."""
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
