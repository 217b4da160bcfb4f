"""The runtime itself: the port, answered with wrappers, records and signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.kernel.boot import read_boot_id
from plugbay.kernel.processes import (
    ProcessIdentity,
    is_running,
    kill_session,
    read_stat,
    send_signal,
    signal_group,
    wait_any_end,
    wait_end,
)
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
)
from plugbay.runtimes.supervised.commands import ExecCommand, run_attachment, run_command
from plugbay.runtimes.supervised.confinement import Confinement
from plugbay.runtimes.supervised.directories import InstanceDirectories
from plugbay.runtimes.supervised.imageless import check_startable
from plugbay.runtimes.supervised.instance import Instance, doubts, in_doubt
from plugbay.runtimes.supervised.launch import START_S, input_words, plan_launch, spawn_wrapper
from plugbay.runtimes.supervised.records import ProcessRecord, container_id, stand_in
from plugbay.runtimes.supervised.traces import find_wrappers, has_lost_program, is_starting
from plugbay.runtimes.supervised.wrapper_words import keep_going, read_to_end, start_reason, until_given_up

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_STARTS_AT_ONCE: Final = 4
"""Starting is mostly the CPU time of one interpreter; more at a time only makes each start later."""
_LAST_WORDS_BYTES: Final = 4096
_RECORDED: Final = "recorded\n"
"""The report of a wrapper when nothing went wrong."""


class SupervisedRuntime:
    """Containers below wrappers, put into what ``confinement`` makes; see the package.

    It keeps no state but directories, so a second one on the same directory, after the first, knows the same
    instances. Two at a time are not allowed.

    Args:
        state_dir: one directory per instance is made here; the node's own.
        environ: the environment of wrappers.
        clock: the time, with a time zone.
        confinement: stands between wrappers and the commands of containers.
        logs: what the logs of a container may take.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        environ: Mapping[str, str],
        clock: Callable[[], datetime],
        confinement: Confinement,
        logs: LogLimits = DEFAULT_LOGS,
    ) -> None:
        self._confinement = confinement
        self.name = self._confinement.name
        self._directories = InstanceDirectories(state_dir)
        self._state_dir = state_dir
        self._environ = environ
        self._logs = logs
        self._clock = clock
        self._boot_id = read_boot_id(_PROC)
        self._slots = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._starting: set[ContainerId] = set()
        self._half_made: set[ContainerId] = set()
        """Instances of starts that have not succeeded; they are removed before the next try, if not earlier."""
        self._children: set[int] = set()
        """Wrappers that are our children and not yet reaped."""

    async def prepare(self, spec: ContainerSpec, tell: Callable[[Notice], None]) -> None:
        check_startable(spec)

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        return self._confinement.shortcomings(spec)

    async def start(self, spec: ContainerSpec) -> ContainerState:
        """See `ContainerRuntime`. When cancelled, the instance may or may not run; `list` tells."""
        container = container_id(spec)
        directory = self._directories.path(container)
        async with self._slots:
            if container in self._half_made:
                await self._clear_half_made(container)
            launch = await plan_launch(self._confinement, spec, container, directory)
            self._starting.add(container)
            try:
                await asyncio.to_thread(self._directories.create, spec, launch, created_at=self._clock())
                self._half_made.add(container)
                state = await self._launch(container, input_words(spec.container, self._confinement.terminal_maker))
            finally:
                self._starting.discard(container)
            self._half_made.discard(container)
            return state

    async def list(self) -> Sequence[ContainerState]:
        for pid in tuple(self._children):
            self._reap(pid)
        instances, unreadable = await asyncio.to_thread(self._directories.read_all)
        traced = await asyncio.to_thread(self._find_wrappers)
        states: list[ContainerState] = []
        known = {each.id for each in instances} | {*unreadable} | self._starting
        for instance in [*instances, *self._forgotten(traced, traced.keys() - known)]:
            if instance.id in self._starting:
                continue
            try:
                instance = await self._begun(instance, traced.get(instance.id))
                if instance.process is None and instance.exit is None and not instance.is_damaged:
                    # Its node was killed first, so its command never ran: as if it had never been made.
                    await asyncio.to_thread(self._directories.remove, instance.id)
                else:
                    states.append(await self._settle(instance))
            except InstanceNotFound:
                continue  # removed since it was read
            except (InstanceUnreadable, OSError) as error:
                logger.warning(
                    "the state of container %s is not known, so it counts as running until it can be read: %s",
                    instance.id,
                    error,
                )
                states.append(instance.in_doubt())
        return [*states, *(state for each in unreadable if (state := in_doubt(each, now=self._clock())))]

    async def wait(self, container: ContainerId) -> ContainerState:
        with doubts(container):
            instance = await self._read(container)
            if instance.process is not None and instance.process.boot_id == self._boot_id:
                # Also when it has recorded the end: the wrapper itself takes a little longer, and is ours to reap.
                await wait_any_end(instance.process.process, instance.process.wrapper, proc_root=_PROC)
                # A container can stop its wrapper, which, continued, ends all that is left.
                send_signal(instance.process.wrapper, signal.SIGCONT, proc_root=_PROC)
                await keep_going(instance.process.wrapper, wait_end(instance.process.wrapper, proc_root=_PROC))
                self._reap(instance.process.wrapper.pid)
            return await self._settle(instance)

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        """See `ContainerRuntime`; the signals go to the process group, SIGKILL to all that is left of the session."""
        with doubts(container):
            instance = await self._read(container)
            runs = self._runs(instance)
            if runs and grace_s > 0:
                signal_group(runs.process, signal.SIGTERM, proc_root=_PROC)
                try:
                    async with asyncio.timeout(grace_s):
                        return await self.wait(container)
                except TimeoutError:
                    pass
            if runs:
                await self._confinement.kill(instance, runs)
            return await self.wait(container)

    async def remove(self, container: ContainerId) -> None:
        """Forget an instance, its log included; kills it first if it runs. Nothing happens when there is none."""
        try:
            await self.stop(container, grace_s=0)
        except InstanceNotFound:
            return
        with doubts(container):
            await asyncio.to_thread(self._directories.remove, container)

    async def exec(
        self, container: ContainerId, argv: Sequence[str], given: ExecInput | None = None
    ) -> AsyncGenerator[ExecOutput | ExecExit, None]:
        instance, directory = await self._open_to_clients(container)
        console = given.console if given else None
        confined = await asyncio.to_thread(self._confinement.command, instance, argv, console, directory)
        maker = self._confinement.terminal_maker
        command = ExecCommand(container, directory, confined, instance.spec.working_dir, given, maker)
        async with aclosing(run_command(command, proc_root=_PROC)) as items:
            last_words_on = ExecStream.STDOUT if console is Console.TERMINAL else ExecStream.STDERR
            said = b""
            async for item in items:
                if isinstance(item, ExecExit):
                    if problem := self._confinement.command_failure(item.exit_code, said):
                        raise ExecFailed(container, problem)
                elif item.stream is last_words_on:
                    said = (said + item.chunk)[-_LAST_WORDS_BYTES:]
                yield item

    async def attach(
        self, container: ContainerId, given: ExecInput, *, gives_input: bool
    ) -> AsyncGenerator[ExecOutput, None]:
        """See `ContainerRuntime`. A container that is ending is refused when its log is whole, as that is read next."""
        instance, directory = await self._open_to_clients(container)
        try:
            async with aclosing(run_attachment(container, directory, given, gives_input=gives_input)) as items:
                async for item in items:
                    yield item
        except ExecFailed:
            if (runs := self._runs(instance)) and not is_running(runs.process, proc_root=_PROC):
                await keep_going(runs.wrapper, wait_end(runs.wrapper, proc_root=_PROC))
            raise

    async def _open_to_clients(self, container: ContainerId) -> tuple[Instance, Path]:
        """A running instance whose wrapper lets clients in, and its directory."""
        instance = await self._read(container)
        if (runs := self._runs(instance)) is None:
            raise ExecFailed(container, "it is not running")
        if await asyncio.to_thread(has_lost_program, runs.wrapper, proc_root=_PROC):
            problem = "the plugbay that started it was replaced; commands run again after its next start"
            raise ExecFailed(container, problem)
        return instance, self._directories.path(container)

    async def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None, lines: LogLines = ALL_LINES
    ) -> AsyncGenerator[bytes, None]:
        try:
            runs = self._runs(await self._read(container))
        except InstanceUnreadable:
            runs = None  # what it has written can be read all the same
        path = self._directories.path(container) / "log"
        if runs and follow:
            chunks = follow_log(path, tail=tail, ended=wait_end(runs.wrapper, proc_root=_PROC), lines=lines)
        else:
            chunks = read_log(path, tail=tail, lines=lines)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def _launch(self, container: ContainerId, wanted_input: str) -> ContainerState:
        try:
            return await self._run_wrapper(container, wanted_input)
        except (ContainerStartError, InstanceUnreadable, InstanceNotFound, OSError) as error:
            self._starting.discard(container)
            with suppress(ContainerStartError):  # said at the next try
                await self._clear_half_made(container)
            if isinstance(error, ContainerStartError):
                raise
            raise ContainerStartError("CreateContainerError", f"cannot start the container: {error}") from error

    async def _clear_half_made(self, container: ContainerId) -> None:
        """Remove what a start has left that failed, whatever runs of it."""
        try:
            await self.remove(container)
        except InstanceUnreadable as error:
            problem = f"what is left of a start that failed cannot be removed: {error.problem}"
            raise ContainerStartError("CreateContainerError", problem) from error
        self._half_made.discard(container)

    async def _run_wrapper(self, container: ContainerId, wanted_input: str) -> ContainerState:
        report, reported = os.pipe()
        try:
            wrapper = self._spawn(container, reported, wanted_input)
        except OSError as error:
            os.close(report)
            raise ContainerStartError(start_reason(error.errno), f"cannot start a process: {error}") from error
        finally:
            os.close(reported)
        said = await keep_going(wrapper, read_to_end(report))
        directory = self._directories.path(container)
        if said == _RECORDED:
            await self._until_started(container, directory, wrapper)
        instance = await self._read(container)
        failure = ""
        if instance.exit is not None:
            failure = await asyncio.to_thread(self._confinement.start_failure, instance, directory)
        if said == _RECORDED and not failure:
            return instance.running()
        await wait_end(wrapper, proc_root=_PROC)
        self._reap(wrapper.pid)
        if failure and instance.exit is not None:
            raise ContainerStartError(start_reason(instance.exit.errno, "StartError", text=failure), failure)
        word, _, problem = said.partition(" ")
        number, _, problem = problem.partition(" ")
        reason = start_reason(int(number)) if word == "failed" and number.isdigit() else "RunContainerError"
        raise ContainerStartError(
            reason, f"the container's wrapper failed: {problem.strip() or said.strip() or 'killed'}"
        )

    async def _until_started(self, container: ContainerId, directory: Path, wrapper: ProcessIdentity) -> None:
        try:
            async with asyncio.timeout(START_S):
                await self._confinement.until_started(directory, wrapper=wrapper)
        except TimeoutError:
            await self.remove(container)
            raise ContainerStartError("RunContainerError", "context deadline exceeded") from None

    def _spawn(self, container: ContainerId, reported: int, wanted_input: str) -> ProcessIdentity:
        directory = self._directories.path(container)
        pid = spawn_wrapper(
            directory,
            boot_id=self._boot_id,
            environ=self._environ,
            report=reported,
            logs=self._logs,
            wanted_input=wanted_input,
        )
        self._children.add(pid)
        stat = read_stat(pid, proc_root=_PROC)
        assert stat is not None, "our child stays in /proc until we have waited for it"
        return stat.identity

    async def _read(self, container: ContainerId) -> Instance:
        """All that is known of an instance; also of one whose wrapper runs although its records are gone."""
        try:
            instance = await asyncio.to_thread(self._directories.read, container)
        except InstanceNotFound:
            for forgotten in self._forgotten(await asyncio.to_thread(self._find_wrappers), [container]):
                return forgotten
            raise
        if instance.process is None and container not in self._starting:
            traced = await asyncio.to_thread(self._find_wrappers)
            return replace(instance, process=traced.get(container))
        return instance

    def _find_wrappers(self) -> dict[ContainerId, ProcessRecord]:
        return find_wrappers(self._state_dir, boot_id=self._boot_id, proc_root=_PROC)

    async def _begun(self, instance: Instance, traced: ProcessRecord | None) -> Instance:
        """An instance once its wrapper runs the command, or has given up because its node was killed before."""
        waited_for: ProcessIdentity | None = None
        instance = replace(instance, process=instance.process or traced)
        while (record := instance.process) is not None and instance.exit is None and record.wrapper != waited_for:
            if self._runs(instance) and not is_starting(record.wrapper, proc_root=_PROC):
                break
            waited_for = record.wrapper
            await until_given_up(waited_for)
            instance = await self._read(instance.id)
        return instance

    def _forgotten(
        self, traced: Mapping[ContainerId, ProcessRecord], containers: Iterable[ContainerId]
    ) -> Iterator[Instance]:
        """The ``containers`` whose records are lost while their wrapper still runs."""
        for container in containers:
            spec = stand_in(container, created_at=self._clock())
            if spec is not None and container in traced:
                yield Instance(container, spec, traced[container], exit=None, is_damaged=True)

    def _runs(self, instance: Instance) -> ProcessRecord | None:
        """The processes of the instance if it runs: its record is of this boot, and its wrapper is still there."""
        record = instance.process
        if instance.exit is not None or record is None or record.boot_id != self._boot_id:
            return None
        return record if is_running(record.wrapper, proc_root=_PROC) else None

    async def _settle(self, instance: Instance) -> ContainerState:
        """The state of an instance; a container without its wrapper is ended, as its end could not be seen.

        The same goes for commands beside it, which an earlier node may have started.
        """
        if self._runs(instance):
            return instance.running()
        if instance.exit is None:
            # Read again: the wrapper may have written how it ended since the first reading.
            instance = await self._read(instance.id)
        directory = self._directories.path(instance.id)
        if instance.exit is not None:
            await self._confinement.clear(instance, directory)
            failure = await asyncio.to_thread(self._confinement.start_failure, instance, directory)
            ending = await asyncio.to_thread(self._confinement.ending, instance, directory)
            return instance.exited(instance.exit, start_failure=failure, reason=ending.reason, message=ending.message)
        if instance.process is not None and instance.process.boot_id == self._boot_id:
            guests = await asyncio.to_thread(self._directories.guests, instance.id)
            for leader in (instance.process.process, *guests):
                for process in await asyncio.to_thread(kill_session, leader, proc_root=_PROC):
                    await wait_end(process, proc_root=_PROC)
            await self._confinement.clear(instance, directory)
        return instance.lost()

    def _reap(self, pid: int) -> None:
        """Take note that a wrapper of ours has ended, if it has, so that it does not stay as a zombie."""
        if pid not in self._children:
            return  # an earlier node's
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            ended = True
        if ended:
            self._children.discard(pid)
