"""Sandboxes that an engine makes: found again by their labels, replaced when they died, removed with all they left."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidBandwidth, RpcFailed, SandboxFailed
from plugbay.kernel.cgroups import clear_cgroup, remove_cgroup
from plugbay.model.bandwidth import bandwidth_of
from plugbay.model.cri import CgroupDriver, NamespaceMode, Sandbox, SandboxConfig, SandboxState
from plugbay.model.ids import PodUid
from plugbay.node.runtimes.cri.config import NODE, POD_UID, Conventions, cgroup_name, sandbox_config
from plugbay.node.runtimes.sandboxes import SandboxSpec
from plugbay.wire.cri import CriClient

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENDING_S: Final = 10.0
_RESERVED: Final = "is reserved for"


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """The sandbox that a pod's containers are made in, what was asked for, and the addresses it has."""

    id: str
    config: SandboxConfig
    spec: SandboxSpec
    ips: tuple[str, ...]


class CriSandboxes:
    """For `plugbay.node.runtimes.sandboxes.Sandboxes`."""

    def __init__(self, client: CriClient, conventions: Conventions) -> None:
        self._client = client
        self._conventions = conventions
        self._current: dict[PodUid, RunningSandbox] = {}
        self._making: dict[PodUid, asyncio.Lock] = {}

    def current(self, pod: PodUid) -> RunningSandbox | None:
        """What `run` made or found last."""
        return self._current.get(pod)

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        try:
            bandwidth_of(spec.annotations)  # some engines cannot remove what they made for a bad one
        except InvalidBandwidth as error:
            raise SandboxFailed(str(error)) from error
        with _failures():
            async with self._making.setdefault(spec.pod_uid, asyncio.Lock()):  # each of its containers may want it
                return await self._run(spec)

    async def stop(self, pod: PodUid) -> None:
        self._current.pop(pod, None)
        with _failures():
            for sandbox in await self._of(pod):
                await self._client.stop_sandbox(sandbox.id)
            await self._remove_cgroup(pod)

    async def remove(self, pod: PodUid) -> None:
        await self.stop(pod)
        with _failures():
            for sandbox in await self._of(pod):
                await self._client.remove_sandbox(sandbox.id)
            await asyncio.to_thread(self._remove_logs, pod)
        self._making.pop(pod, None)

    async def pods(self) -> frozenset[PodUid]:
        sandboxes = await self._client.sandboxes({NODE: self._conventions.node})
        return frozenset(PodUid(each.uid) for each in sandboxes)

    async def _run(self, spec: SandboxSpec) -> tuple[str, ...]:
        current = self._current.get(spec.pod_uid)
        if current is not None and await self._is_in_order(current):
            return current.ips
        there = await self._of(spec.pod_uid)
        if there and there[-1].state is SandboxState.READY:
            config = sandbox_config(spec, self._conventions, attempt=there[-1].attempt)
            status = await self._client.sandbox_status(there[-1].id, mode=config.namespaces.network)
            if status.ips or config.namespaces.network is NamespaceMode.NODE:
                self._current[spec.pod_uid] = RunningSandbox(there[-1].id, config, spec, status.ips)
                return status.ips
        if spec.pod_uid in self._current:
            logger.warning("the sandbox of pod %s died; it gets a new one", spec.pod_uid)
        # What still runs in the old one ends, as with a kubelet: it would share no network with the rest. They are
        # removed with the pod: until then their containers can be looked at.
        for sandbox in there:
            await self._client.stop_sandbox(sandbox.id)
        attempt = 1 + max((each.attempt for each in there), default=-1)
        return await self._make(spec, sandbox_config(spec, self._conventions, attempt=attempt))

    async def _is_in_order(self, sandbox: RunningSandbox) -> bool:
        try:
            status = await self._client.sandbox_status(sandbox.id, mode=sandbox.config.namespaces.network)
        except RpcFailed as error:
            if error.code != "NotFound":
                raise
            return False
        has_network = bool(status.ips) or status.network is NamespaceMode.NODE
        return status.state is SandboxState.READY and has_network and status.ips == sandbox.ips

    async def _make(self, spec: SandboxSpec, config: SandboxConfig) -> tuple[str, ...]:
        await asyncio.to_thread(Path(config.log_directory).mkdir, mode=0o755, parents=True, exist_ok=True)
        try:
            sandbox = await self._client.run_sandbox(config, handler=spec.runtime_class)
        except RpcFailed as error:
            if _RESERVED not in error.detail:
                raise
            # A sandbox whose making was broken off keeps its name for a while.
            config = replace(config, attempt=config.attempt + 1)
            sandbox = await self._client.run_sandbox(config, handler=spec.runtime_class)
        status = await self._client.sandbox_status(sandbox, mode=config.namespaces.network)
        self._current[spec.pod_uid] = RunningSandbox(sandbox, config, spec, status.ips)
        return status.ips

    async def _of(self, pod: PodUid) -> Sequence[Sandbox]:
        return await self._client.sandboxes({NODE: self._conventions.node, POD_UID: pod})

    def _remove_logs(self, pod: PodUid) -> None:
        for directory in Path(self._conventions.log_root).glob(f"*_{pod}"):
            shutil.rmtree(directory, ignore_errors=True)

    async def _remove_cgroup(self, pod: PodUid) -> None:
        """The engine removes those that it made for containers, but not the one above them.

        An engine whose start of a container was broken off may have forgotten a process in it (seen with containerd
        2.1): it is killed, as by a kubelet.
        """
        if self._conventions.cgroup_driver is CgroupDriver.SYSTEMD:
            return  # systemd removes slices in which nothing is
        name = cgroup_name(self._conventions, pod)
        if await asyncio.to_thread(remove_cgroup, name, proc_root=_PROC):
            logger.warning("pod %s left processes that its container engine has forgotten; they are killed", pod)
            await clear_cgroup(name, proc_root=_PROC, within_s=_ENDING_S)


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise SandboxFailed("processes of the pod do not end although they were killed") from error
    except (RpcFailed, OSError) as error:
        raise SandboxFailed(str(error)) from error
