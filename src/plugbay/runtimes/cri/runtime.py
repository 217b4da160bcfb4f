"""The runtime itself: the port, answered with calls of an engine."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from plugbay.cdi.convert import NOTHING
from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound, InstanceUnreadable, RpcCode, RpcFailed
from plugbay.kernel.processes import read_stat, wait_end
from plugbay.model.cri import ContainerPhase, ContainerStatus, ListedContainer
from plugbay.ops.clock import Clock
from plugbay.runtimes.cri.config import NODE, POD_UID, Conventions, container_config, container_labels
from plugbay.runtimes.cri.engine import EngineTraits, expand_cdi, insist
from plugbay.runtimes.cri.images import ImagePuller, check_user
from plugbay.runtimes.cri.log_rotation import LogRotation, remove_older
from plugbay.runtimes.cri.pod_files import make_message_file, remove_message_file, with_message, write_hosts
from plugbay.runtimes.cri.sandboxes import CriSandboxes, RunningSandbox
from plugbay.runtimes.cri.states import container_state, is_named, may_be_explained, never_ran
from plugbay.runtimes.cri.streams import Streamed, run_streamed
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.logs.files import DEFAULT_LOGS, LogLimits
from plugbay.runtimes.logs.lines import follow_log, read_log
from plugbay.runtimes.port import (
    ALL_LINES,
    ContainerId,
    ContainerSpec,
    ContainerState,
    ExecExit,
    ExecOutput,
    ExecStream,
    LogLines,
    Notice,
    RunState,
)
from plugbay.values import dataclass
from plugbay.wire.cri import CriClient, is_away

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_LOOK_AGAIN_S: Final = 1.0
"""The interval, a kubelet's own, between questions to an engine where the end of a process cannot be waited for."""
_SETTLING_S: Final = 0.02
"""The time that an engine may take to notice the end of a container's process."""
_DOUBT_S: Final = 60.0
_CLEARING_S: Final = 10.0
_STARTING: Final = "is in starting state"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class CriEngine:
    """``cdi_directories``: of CDI spec files, weakest first, for an engine without CDI."""

    client: CriClient
    traits: EngineTraits
    cdi_directories: tuple[Path, ...]


class CriRuntime:
    """Containers that an engine runs in ``sandboxes``; see the package."""

    def __init__(
        self,
        engine: CriEngine,
        sandboxes: CriSandboxes,
        conventions: Conventions,
        clock: Clock,
        logs: LogLimits = DEFAULT_LOGS,
    ) -> None:
        self.name = engine.traits.version.name
        self._engine = engine
        self._client = engine.client
        self._sandboxes = sandboxes
        self._conventions = conventions
        self._clock = clock
        self._images = ImagePuller(engine.client, clock)
        self._logs: dict[ContainerId, Path] = {}
        """Kept in mind: logs can be read while the engine is away."""
        self._stopped: set[ContainerId] = set()
        self._rotation = LogRotation(engine.client, clock, logs)

    async def rotate_logs(self) -> None:
        """Keep logs within their limits, until cancelled."""
        await self._rotation.run()

    # --- starting ---------------------------------------------------------------------------------------------------

    async def prepare(self, spec: ContainerSpec, tell: Callable[[Notice], None]) -> None:
        sandbox = self._sandbox(spec)
        await self._images.ensure(spec.container.image, spec.pull_policy, spec.pull, sandbox=sandbox.config, tell=tell)

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        return ()

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """See `ContainerRuntime`. What an earlier call may have done for the same attempt is looked up first."""
        with _refusals():
            before = await self._earlier(spec)
            if before is not None:
                return before
            sandbox = self._sandbox(spec)
            image = await self._images.known(spec.container.image)
            check_user(spec, image)
            cdi = NOTHING
            if not self._engine.traits.injects_cdi:
                cdi = await asyncio.to_thread(expand_cdi, spec.edits, self._engine.cdi_directories)
            own = Path(self._conventions.pods_root, spec.pod.uid)
            config = container_config(
                spec,
                self._conventions,
                image=image.id,
                sandbox=sandbox.config,
                cdi=cdi,
                hosts=await asyncio.to_thread(write_hosts, sandbox, own, host=self._conventions.hosts),
                message_file=await asyncio.to_thread(make_message_file, own, spec.container.name),
            )
            log = Path(sandbox.config.log_directory, config.log_path)
            await asyncio.to_thread(log.parent.mkdir, mode=0o755, parents=True, exist_ok=True)
            container = ContainerId(await self._client.create_container(sandbox.id, config, sandbox.config))
            self._logs[container] = log
            return await self._start(container)

    async def _earlier(self, spec: ContainerSpec) -> ContainerState | None:
        """The instance of this attempt, if it was started before; one that was only created is removed first."""
        labels = {NODE: self._conventions.node} | container_labels(spec.pod.uid, spec.container.name)
        containers = await self._client.containers(labels)
        states = self._settled_of(each for each in containers if each.attempt == spec.attempt)
        async with aclosing(states):
            return await anext(states, None)

    async def _start(self, container: ContainerId) -> ContainerState:
        try:
            await self._client.start_container(container)
        except RpcFailed as error:
            if is_away(error):
                raise
            status = await self._client.container_status(container)
            if status.phase is ContainerPhase.RUNNING:  # it took longer than the answer was waited for
                return await self._told(status)
            await self._client.remove_container(container)
            raise ContainerStartError("StartError", status.message or error.detail) from error
        return await self._state(container)

    def _sandbox(self, spec: ContainerSpec) -> RunningSandbox:
        sandbox = self._sandboxes.current(spec.pod.uid)
        if sandbox is None:
            raise ContainerStartError("CreateContainerError", "the pod has no sandbox")
        return sandbox

    # --- what there is ----------------------------------------------------------------------------------------------

    async def list(self) -> Sequence[ContainerState]:
        containers = await self._client.containers({NODE: self._conventions.node})
        return [state async for state in self._settled_of(filter(is_named, containers))]

    async def _settled_of(self, containers: Iterable[ListedContainer]) -> AsyncGenerator[ContainerState, None]:
        """The states of those that are still there, and ran."""
        for container in containers:
            try:
                state = await self._settled(ContainerId(container.id))
            except RpcFailed as error:
                if error.code is not RpcCode.NOT_FOUND:
                    raise
                continue  # it was removed since it was listed
            if state is not None:
                yield state

    async def _settled(self, container: ContainerId) -> ContainerState | None:
        """The state of an instance that an earlier call made; None if it never ran.

        Then it is removed, as if it had never been made. One that is just being started is waited for, and the engine
        may need a while to clear a start that was broken off. If it cannot, the container stays for now: its name is
        taken, so that no other comes in its place.
        """
        pause_s, deadline = _SETTLING_S, self._clock.monotonic() + _CLEARING_S
        while True:
            status = await self._client.container_status(container)
            if status.phase is not ContainerPhase.CREATED and not never_ran(status):
                self._logs[container] = Path(status.log_path)
                return await self._ended_if_unknown(container, status)
            try:
                await self._client.remove_container(container)
            except RpcFailed as error:
                if is_away(error):
                    raise
                if _STARTING not in error.detail and self._clock.monotonic() >= deadline:
                    logger.warning(
                        "container %s, which never ran, cannot be removed; the next start tries again: %s",
                        container,
                        error,
                    )
                    return None
            else:
                return None
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _LOOK_AGAIN_S)

    async def wait(self, container: ContainerId) -> ContainerState:
        pause_s = _SETTLING_S
        while True:
            status = await self._insist(container, partial(self._client.container_status, container))
            if status.id != container:
                raise InstanceUnreadable(container, "the engine answers with another container")
            if status.phase is ContainerPhase.UNKNOWN:
                await self._insist(container, partial(self._client.stop_container, container, grace_s=0))
                return await self._state(container)
            if status.phase is not ContainerPhase.RUNNING:
                return await self._told(await self._explained(container, status))
            if await self._process_ended(status):
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, _LOOK_AGAIN_S)
            else:
                pause_s = _SETTLING_S

    async def _explained(self, container: ContainerId, status: ContainerStatus) -> ContainerStatus:
        """The status of a container that has ended, once its engine had the time to learn why it was killed."""
        pause_s = _SETTLING_S
        while may_be_explained(status) and container not in self._stopped and pause_s < _LOOK_AGAIN_S:
            await self._clock.sleep(pause_s)
            pause_s *= 2
            status = await self._insist(container, partial(self._client.container_status, container))
        return status

    async def _process_ended(self, status: ContainerStatus) -> bool:
        """Wait for the end of a container's process, so far as it can be seen from here; False after a while."""
        stat = None if status.pid is None else await asyncio.to_thread(read_stat, status.pid, proc_root=_PROC)
        if stat is None or not await asyncio.to_thread(_runs_in, stat.identity.pid, status.id):
            await self._clock.sleep(_LOOK_AGAIN_S)
            return True
        try:
            async with asyncio.timeout(_DOUBT_S):
                await wait_end(stat.identity, proc_root=_PROC)
        except TimeoutError:
            return False
        return True

    # --- ending -----------------------------------------------------------------------------------------------------

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        deadline = self._clock.monotonic() + grace_s
        self._stopped.add(container)

        async def stop() -> None:
            left_s = math.ceil(max(0.0, deadline - self._clock.monotonic()))
            await self._client.stop_container(container, grace_s=left_s)

        await self._insist(container, stop)
        return await self.wait(container)

    async def remove(self, container: ContainerId) -> None:
        try:
            status = await self._insist(container, partial(self._client.container_status, container))
        except InstanceNotFound:
            return
        await self._insist(container, partial(self._client.remove_container, container))
        self._logs.pop(container, None)
        self._stopped.discard(container)
        self._rotation.end(container)
        if status.log_path:
            await asyncio.to_thread(Path(status.log_path).unlink, missing_ok=True)
            await asyncio.to_thread(remove_older, Path(status.log_path))
        pod = Path(self._conventions.pods_root, status.labels.get(POD_UID, ""))
        await asyncio.to_thread(remove_message_file, status, pod)

    # --- beside it --------------------------------------------------------------------------------------------------

    async def exec(
        self, container: ContainerId, argv: Sequence[str], given: ExecInput | None = None
    ) -> AsyncGenerator[ExecOutput | ExecExit, None]:
        """See `ContainerRuntime`.

        Without input the output comes when the command has ended, cut at 16 MiB each. With input closing it ends only
        what the command reads; see `run_streamed`.
        """
        if given is not None:
            with _exec_failures(container):
                url = await self._client.exec_url(container, argv, tty=given.console is Console.TERMINAL)
            async with aclosing(run_streamed(container, url, given)) as items:
                async for item in items:
                    yield item
            return
        with _exec_failures(container):
            result = await self._client.exec_sync(container, argv)
        if result.stdout:
            yield ExecOutput(ExecStream.STDOUT, result.stdout)
        if result.stderr:
            yield ExecOutput(ExecStream.STDERR, result.stderr)
        yield ExecExit(result.exit_code)

    async def attach(
        self, container: ContainerId, given: ExecInput, *, gives_input: bool
    ) -> AsyncGenerator[ExecOutput, None]:
        """See `ContainerRuntime`; what was printed before is in the log only."""
        with _exec_failures(container):
            url = await self._client.attach_url(container, stdin=gives_input, tty=given.console is Console.TERMINAL)
        streamed = Streamed.CONTAINER if gives_input else Streamed.CONTAINER_OUTPUT
        async with aclosing(run_streamed(container, url, given, streamed)) as items:
            async for item in items:
                if isinstance(item, ExecOutput):
                    yield item

    async def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None, lines: LogLines = ALL_LINES
    ) -> AsyncGenerator[bytes, None]:
        path = await self._log_path(container)
        if follow and path.exists():
            chunks = follow_log(path, tail=tail, ended=self.wait(container), lines=lines)
        else:
            chunks = read_log(path, tail=tail, lines=lines)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _log_path(self, container: ContainerId) -> Path:
        if container not in self._logs:
            status = await self._insist(container, partial(self._client.container_status, container))
            self._logs[container] = Path(status.log_path)
        return self._logs[container]

    async def _state(self, container: ContainerId) -> ContainerState:
        status = await self._client.container_status(container)
        self._logs[container] = Path(status.log_path)
        return await self._told(status)

    async def _insist(self, container: ContainerId, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await insist(self._client, self._clock, call)
        except RpcFailed as error:
            if error.code is RpcCode.NOT_FOUND:
                raise InstanceNotFound(container) from error
            raise InstanceUnreadable(container, f"the engine fails: {error.detail}") from error

    async def _told(self, status: ContainerStatus) -> ContainerState:
        if status.phase is ContainerPhase.RUNNING:
            self._rotation.begin(ContainerId(status.id), Path(status.log_path))
        else:
            self._rotation.end(ContainerId(status.id))
        if status.phase is ContainerPhase.EXITED:
            status = await asyncio.to_thread(with_message, status)
        return container_state(status)

    async def _ended_if_unknown(self, container: ContainerId, status: ContainerStatus) -> ContainerState:
        """A container that the engine has lost track of may run: it is stopped, as by a kubelet."""
        if status.phase is not ContainerPhase.UNKNOWN:
            return await self._told(status)
        try:
            await self._client.stop_container(container, grace_s=0)
            return await self._state(container)
        except RpcFailed as error:
            if error.code is RpcCode.NOT_FOUND:
                raise
            logger.warning(
                "the engine cannot stop container %s, which counts as running; it is stopped again: %s",
                container,
                error,
            )
            return replace(container_state(status), state=RunState.UNKNOWN)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the engine's refusals into reasons why a container does not start; the start is tried again."""
    try:
        yield
    except RpcFailed as error:
        problem = f"the container engine is away: {error.detail}" if is_away(error) else error.detail
        raise ContainerStartError("CreateContainerError", problem) from error


@contextmanager
def _exec_failures(container: ContainerId) -> Iterator[None]:
    try:
        yield
    except RpcFailed as error:
        if error.code is RpcCode.NOT_FOUND:
            raise InstanceNotFound(container) from error
        raise ExecFailed(container, error.detail) from error


def _runs_in(pid: int, container: str) -> bool:
    """Whether the process that has this number here is the container's: an engine may count processes elsewhere."""
    try:
        return container in (_PROC / str(pid) / "cgroup").read_text()
    except OSError:
        return False
