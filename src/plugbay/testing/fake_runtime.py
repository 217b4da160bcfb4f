"""A container runtime that runs nothing: containers start and end when the test says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

from plugbay.errors import ContainerStartError, ExecFailed, InstanceNotFound, InstanceUnreadable
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first
from plugbay.runtimes.exec_input import ExecInput
from plugbay.runtimes.port import (
    ALL_LINES,
    ContainerId,
    ContainerSpec,
    ContainerState,
    ExecExit,
    ExecOutput,
    LogLines,
    Notice,
    RunState,
)


class FakeRuntime:
    """A `ContainerRuntime` in memory. ``SIGTERM`` ends a container with exit code 0, at once.

    An instance's ID is ``POD_CONTAINER_ATTEMPT``.

    Args:
        moved: told whenever something happened.

    Attributes:
        started: the container names, in order.
        stopped: container name and grace period of each stop that found it running.
        refusals: raised by the next starts, one each.
        deaf: container names that ignore ``SIGTERM``: they are killed when the grace period is over.
        commands: the commands that were run in containers, as ``CONTAINER: WORDS``.
        unreadable: the names of containers whose state cannot be read.
        exec_codes: exit codes of commands by their first word; a word that is missing ends with 0, and one whose code
            is None does not end before its container.
        exec_faults: what commands raise instead of running, by their first word.
    """

    name = "fake"

    def __init__(self, clock: Clock, moved: Changes) -> None:
        self._clock = clock
        self._moved = moved
        self.instances: dict[ContainerId, ContainerState] = {}
        self.started: list[str] = []
        self.stopped: list[tuple[str, float]] = []
        self.refusals: list[ContainerStartError] = []
        self.deaf: set[str] = set()
        self.unreadable: set[str] = set()
        self.commands: list[str] = []
        self.exec_codes: dict[str, int | None] = {}
        self.exec_faults: dict[str, Exception] = {}
        self.specs: dict[ContainerId, ContainerSpec] = {}

    async def prepare(self, spec: ContainerSpec, tell: Callable[[Notice], None]) -> None:
        pass

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        return ()

    async def start(self, spec: ContainerSpec) -> ContainerState:
        if self.refusals:
            raise self.refusals.pop(0)
        state = ContainerState(
            ContainerId(f"{spec.pod.name}_{spec.container.name}_{spec.attempt}"),
            spec.pod.uid,
            spec.container.name,
            spec.attempt,
            RunState.RUNNING,
            pid=1,
            started_at=self._clock.now(),
        )
        self.instances[state.id] = state
        self.specs[state.id] = spec
        self.started.append(spec.container.name)
        self._moved.notify()
        return state

    def finish(self, container: str, exit_code: int) -> None:
        """Let a container's process end."""
        state = self.instances[ContainerId(container)]
        reason = "Completed" if exit_code == 0 else "Error"
        self.instances[state.id] = replace(
            state, state=RunState.EXITED, exit_code=exit_code, reason=reason, finished_at=self._clock.now()
        )
        self._moved.notify()

    def lose_all(self) -> None:
        """Reboot the machine: nothing runs, and no exit was recorded."""
        for state in self.running():
            self.instances[state.id] = replace(state, state=RunState.LOST, reason="ContainerStatusUnknown")
        self._moved.notify()

    def running(self) -> list[ContainerState]:
        return [state for state in self.instances.values() if state.state is RunState.RUNNING]

    async def list(self) -> Sequence[ContainerState]:
        return [
            replace(state, state=RunState.UNKNOWN) if state.name in self.unreadable else state
            for state in self.instances.values()
        ]

    async def wait(self, container: ContainerId) -> ContainerState:
        async for _ in self._moved:
            if self._instance(container).state is not RunState.RUNNING:
                return self.instances[container]
        raise AssertionError

    async def stop(self, container: ContainerId, *, grace_s: float) -> ContainerState:
        state = self._instance(container)
        if state.state is RunState.RUNNING:
            self.stopped.append((state.name, grace_s))
            self._moved.notify()
            if state.name not in self.deaf:
                self.finish(container, 0)
            await first(self.wait(container), self._clock.sleep(grace_s))
            if self._instance(container).state is RunState.RUNNING:
                self.finish(container, 137)
        return self._instance(container)

    async def remove(self, container: ContainerId) -> None:
        self.instances.pop(container, None)
        self._moved.notify()

    async def exec(
        self, container: ContainerId, argv: Sequence[str], given: ExecInput | None = None
    ) -> AsyncGenerator[ExecOutput | ExecExit, None]:
        if self._instance(container).state is not RunState.RUNNING:
            raise ExecFailed(container, "it is not running")
        self.commands.append(f"{self.instances[container].name}: {' '.join(argv)}")
        self._moved.notify()
        if (fault := self.exec_faults.get(argv[0])) is not None:
            raise fault
        code = self.exec_codes.get(argv[0], 0)
        if code is None:
            await self.wait(container)
            code = 137
        yield ExecExit(code)

    async def attach(
        self, container: ContainerId, given: ExecInput, *, gives_input: bool
    ) -> AsyncGenerator[ExecOutput, None]:
        if self._instance(container).state is not RunState.RUNNING:
            raise ExecFailed(container, "it is not running")
        await self.wait(container)
        return
        yield

    async def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None, lines: LogLines = ALL_LINES
    ) -> AsyncGenerator[bytes, None]:
        self._instance(container)
        return
        yield b""

    def _instance(self, container: ContainerId) -> ContainerState:
        try:
            state = self.instances[container]
        except KeyError:
            raise InstanceNotFound(container) from None
        if state.name in self.unreadable:
            raise InstanceUnreadable(container, "Input/output error")
        return state
