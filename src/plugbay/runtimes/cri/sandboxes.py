"""Sandboxes that an engine makes: found again by their labels, replaced when they died, removed with all they left."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidBandwidth, RpcFailed, SandboxFailed
from plugbay.kernel.cgroups import clear_cgroup, remove_cgroup
from plugbay.model.bandwidth import bandwidth_of
from plugbay.model.cri import CgroupDriver, NamespaceMode, Sandbox, SandboxConfig, SandboxState
from plugbay.model.ids import PodUid
from plugbay.runtimes.cri.config import NODE, POD_UID, Conventions, cgroup_name, sandbox_config
from plugbay.runtimes.sandboxes import Network, SandboxSpec
from plugbay.values import dataclass
from plugbay.wire.cri import CriClient

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENDING_S: Final = 10.0
_RESERVED: Final = "is reserved for"
_NETWORK_READY: Final = "NetworkReady"


@dataclass(frozen=True, slots=True)
class RunningSandbox:
    """The sandbox that a pod's containers are made in, what was asked for, and the addresses it has."""

    id: str
    config: SandboxConfig
    spec: SandboxSpec
    ips: tuple[str, ...]


class CriSandboxes:
    """The `plugbay.runtimes.sandboxes.Sandboxes` of an engine."""

    def __init__(self, client: CriClient, conventions: Conventions) -> None:
        self._client = client
        self._conventions = conventions
        self._current: dict[PodUid, RunningSandbox] = {}
        self._making: dict[PodUid, asyncio.Lock] = {}

    def current(self, pod: PodUid) -> RunningSandbox | None:
        """The sandboxes that `run` made or found last."""
        return self._current.get(pod)

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        try:
            bandwidth_of(spec.pod.annotations)  # some engines cannot remove what they made for a bad one
        except InvalidBandwidth as error:
            raise SandboxFailed(str(error)) from error
        with _failures():
            async with self._making.setdefault(spec.pod.uid, asyncio.Lock()):  # each of its containers may want it
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
        # Those that were broken off and went on may be younger than the one that came after them.
        there = sorted(await self._of(spec.pod.uid), key=lambda each: each.attempt)
        current = await self._taken_over(there[-1], spec) if there else None
        if current is None:
            if spec.pod.uid in self._current:
                logger.warning(
                    "the sandbox of pod %s died; the pod gets a new one, perhaps with other addresses", spec.pod.uid
                )
            # What still runs in the old one ends, as with a kubelet: it would share no network with the rest.
            await self._clear_away(there, spec.pod.uid, to_stop=there)
            await self._check_network(spec)
            attempt = 1 + max((each.attempt for each in there), default=-1)
            current = await self._make(spec, sandbox_config(spec, self._conventions, attempt=attempt))
        elif others := there[:-1]:
            # One that is ready would keep ports of the pod's.
            ready = [each for each in others if each.state is SandboxState.READY]
            await self._clear_away(others, spec.pod.uid, to_stop=ready)
        self._current[spec.pod.uid] = current
        return current.ips

    async def _taken_over(self, sandbox: Sandbox, spec: SandboxSpec) -> RunningSandbox | None:
        """A sandbox that there is, if it lives and has a network."""
        if sandbox.state is not SandboxState.READY:
            return None
        config = sandbox_config(spec, self._conventions, attempt=sandbox.attempt)
        mode = config.namespaces.network
        status = await self._client.sandbox_status(sandbox.id, mode=mode)
        is_in_order = status.state is SandboxState.READY and (status.ips or mode is NamespaceMode.NODE)
        return RunningSandbox(sandbox.id, config, spec, status.ips) if is_in_order else None

    async def _clear_away(self, old: Sequence[Sandbox], pod: PodUid, *, to_stop: Sequence[Sandbox]) -> None:
        """Remove a pod's ``old`` sandboxes, but not before their containers, which can still be looked at."""
        if not old:
            return
        for sandbox in to_stop:
            await self._client.stop_sandbox(sandbox.id)
        kept = {each.sandbox for each in await self._client.containers({NODE: self._conventions.node, POD_UID: pod})}
        for sandbox in old:
            if sandbox.id in kept:
                continue
            try:
                await self._client.remove_sandbox(sandbox.id)
            except RpcFailed as error:
                logger.warning(
                    "an earlier sandbox of pod %s cannot be removed; it is tried again with the pod: %s", pod, error
                )

    async def _check_network(self, spec: SandboxSpec) -> None:
        """Wait as a kubelet does: an engine cannot remove what it made without a network before it has one."""
        if spec.network is Network.HOST:
            return
        if problem := (await self._client.status()).problems.get(_NETWORK_READY):
            raise SandboxFailed(
                f"container runtime network not ready: {_NETWORK_READY}=false reason:NetworkPluginNotReady "
                f"message:{problem}"
            )

    async def _make(self, spec: SandboxSpec, config: SandboxConfig) -> RunningSandbox:
        await asyncio.to_thread(Path(config.log_directory).mkdir, mode=0o755, parents=True, exist_ok=True)
        try:
            sandbox = await self._client.run_sandbox(config, handler=spec.pod.spec.runtime_class)
        except RpcFailed as error:
            if _RESERVED not in error.detail:
                raise
            # A sandbox whose making was broken off keeps its name for a while.
            config = replace(config, attempt=config.attempt + 1)
            sandbox = await self._client.run_sandbox(config, handler=spec.pod.spec.runtime_class)
        status = await self._client.sandbox_status(sandbox, mode=config.namespaces.network)
        return RunningSandbox(sandbox, config, spec, status.ips)

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
