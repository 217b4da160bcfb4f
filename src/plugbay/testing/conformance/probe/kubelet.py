"""The kubelet's registration socket, and every Register call that comes to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plugbay.errors import PathTooLong, RegistrationRefused, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import is_extended_resource
from plugbay.ops.changes import Changes
from plugbay.ops.clock import SystemClock
from plugbay.testing.conformance.probe.checkpoint_file import write_checkpoint
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.probe.watcher import API_VERSION, FoundSocket, RegistryWatcher
from plugbay.testing.conformance.trace import Trace
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.transport import DisturbedTransport
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.wire import plugin_calls
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_calls import RegisterRequest, register_handler

DIAL_S: Final = 10.0
"""The time for which a kubelet dials a plugin (spec 2.4)."""


@dataclass(slots=True)
class Attempt:
    """One Register call.

    Attributes:
        at: when it came, on the loop's clock.
        was_serving: whether the plugin's socket took a connection at that very moment; None if nobody looked.
        answered_at: when it was answered; None while it is not, or when the plugin has given it up.
        refusal: the error that it was answered with; empty if it was accepted.
        meeting: the registration, if it was accepted.
    """

    request: RegisterRequest
    at: float
    was_serving: bool | None = None
    answered_at: float | None = None
    refusal: str = ""
    meeting: Meeting | None = field(default=None, repr=False)


Admit = Callable[[Attempt], str]
"""Decides about a Register call before the plugin is dialled: the text of a refusal, empty to go on."""


def as_kubelet(attempt: Attempt) -> str:
    """Refuse what a kubelet refuses, in its words (spec 2.2, 2.3)."""
    if attempt.request.version != API_VERSION:
        given = attempt.request.version
        return f'requested API version "{given}" is not supported by kubelet. Supported version is ["{API_VERSION}"]'
    if not is_extended_resource(attempt.request.resource_name):
        return f'the ResourceName "{attempt.request.resource_name}" is invalid'
    return ""


class ProbeKubelet:
    """Used through `probe_kubelet`.

    Attributes:
        attempts: every Register call so far.
        admit: decides about Register calls; `as_kubelet` by default.
        delay_s: the time that it waits before it dials a plugin that registers.
        follows_lists: whether it opens ListAndWatch after a registration.
        transport: all that passes, with switches for faults on the way.
    """

    def __init__(self, root: Path, tasks: asyncio.TaskGroup, trace: Trace) -> None:
        self.paths = KubeletPaths(root)
        self.attempts: list[Attempt] = []
        self.admit: Admit = as_kubelet
        self.delay_s = 0.0
        self.follows_lists = True
        self.transport = DisturbedTransport(TrafficRecorder(SystemClock()), FaultSwitches())
        self.trace = trace
        self.meetings: list[Meeting] = []
        self._tasks = tasks
        self._changes = Changes()
        self._followers: set[asyncio.Task[None]] = set()
        self._up: AsyncExitStack | None = None
        self._watcher = RegistryWatcher(self)

    # --- coming and going -------------------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        return self._up is not None

    async def listen(self, *, clears_directory: bool = True) -> None:
        """Start: remove all sockets in the directory, plugins' included, then listen, as a kubelet does.

        Args:
            clears_directory: False for what no kubelet does, as a plugin may watch its own socket instead of ours.
        """
        self.paths.device_plugins.mkdir(parents=True, exist_ok=True)
        self.paths.plugins_registry.mkdir(parents=True, exist_ok=True)
        if clears_directory:
            self.clear_directory()
        up = AsyncExitStack()
        await up.enter_async_context(
            serve_grpc(self.paths.registration_socket, [self.transport.offered(register_handler(self._register))])
        )
        watching = self._tasks.create_task(self._watcher.watch(), name="plugin watcher")
        up.callback(watching.cancel)
        self._up = up
        self.trace.note("kubelet listens at kubelet.sock")

    async def stop(self, *, leaves_socket: bool = False) -> None:
        """Hang up on every plugin and stop listening; plugins' sockets stay.

        Args:
            leaves_socket: whether kubelet.sock stays as a file nobody serves, as after a crash.
        """
        await self.hang_up()
        if self._up is None:
            return
        up, self._up = self._up, None
        await up.aclose()
        self.trace.note("kubelet has stopped")
        if leaves_socket:
            _leave_stale_socket(self.paths.registration_socket)

    async def restart(self) -> None:
        await self.stop()
        await self.listen()

    async def hang_up(self) -> None:
        """Close the connection to every plugin and go on listening."""
        for follower in self._followers:
            follower.cancel()
        if self._followers:
            await asyncio.wait(self._followers)

    def clear_directory(self) -> None:
        """Remove all sockets in the device plugin directory."""
        for entry in self.paths.device_plugins.iterdir():
            if entry.is_socket():
                entry.unlink(missing_ok=True)

    # --- what comes -------------------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds``, which is asked after each Register call and each answer; False if it never does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                async for _ in self._changes:
                    if holds():
                        return True
        return holds()

    async def meet(self, resource: str, timeout_s: float, *, after: Meeting | None = None) -> Meeting | None:
        """The newest registration of ``resource``, one after ``after`` if given; None if none comes in time."""
        known = self.meetings.index(after) + 1 if after is not None else 0

        def newest() -> Meeting | None:
            return next((each for each in reversed(self.meetings[known:]) if each.resource == resource), None)

        await self.until(lambda: newest() is not None, timeout_s)
        return newest()

    @property
    def found(self) -> list[FoundSocket]:
        """The sockets that plugins have put below plugins_registry."""
        return self._watcher.found

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are registered, sorted."""
        return tuple(sorted({each.resource for each in self.meetings}))

    async def _register(self, request: RegisterRequest) -> None:
        attempt = Attempt(request, asyncio.get_running_loop().time())
        self.attempts.append(attempt)
        self.trace.note(
            f"plugin registers {request.resource_name!r}, version {request.version!r}, at {request.endpoint!r}"
        )
        self._changes.notify()
        try:
            await self._answer(attempt)
        except RegistrationRefused as refused:
            attempt.refusal = str(refused)
            self.trace.note(f"kubelet refuses: {refused}")
            raise
        finally:
            self._changes.notify()

    async def _answer(self, attempt: Attempt) -> None:
        loop = asyncio.get_running_loop()
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if refusal := self.admit(attempt):
            attempt.answered_at = loop.time()
            raise RegistrationRefused(refusal)
        try:
            meeting = await self._dial(attempt)
        except RegistrationRefused:
            attempt.answered_at = loop.time()
            raise
        attempt.meeting = meeting
        attempt.answered_at = loop.time()
        self.welcome(meeting)

    def welcome(self, meeting: Meeting) -> None:
        """Follow the lists of a plugin that is registered."""
        self.meetings.append(meeting)
        meeting.heard = self._write_checkpoint
        self.trace.note(f"kubelet accepts {meeting.resource!r}")
        follower = self._tasks.create_task(meeting.follow() if self.follows_lists else _hold(meeting))
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        self._changes.notify()

    async def _write_checkpoint(self) -> None:
        live = {each.resource: each.healthy for each in self.meetings if not each.ended.is_set()}
        await write_checkpoint(self.paths.checkpoint, live)

    async def _dial(self, attempt: Attempt) -> Meeting:
        path = self.paths.device_plugins / attempt.request.endpoint
        attempt.was_serving = _takes_connections(path)
        return await self.dial(attempt.request, path)

    async def dial(self, request: RegisterRequest, path: Path) -> Meeting:
        """Dial the plugin, and ask it for its options, as a kubelet does before it answers.

        Raises:
            RegistrationRefused: in the kubelet's words.
        """
        try:
            channel = self.transport.channel(path)
        except PathTooLong as error:
            raise RegistrationRefused(f"failed to dial device plugin: {error}") from None
        meeting = Meeting(request, path, channel, self.trace)
        try:
            await channel.connect(DIAL_S)
            meeting.options = await plugin_calls.ask_options(channel, timeout_s=DIAL_S)
        except TimeoutError:
            await channel.close()
            raise RegistrationRefused("failed to dial device plugin: context deadline exceeded") from None
        except RpcFailed as failure:
            await channel.close()
            raise RegistrationRefused(f"failed to get device plugin options: {failure}") from None
        except BaseException:
            await channel.close()
            raise
        return meeting


def _takes_connections(path: Path) -> bool:
    """Whether a server listens there at this moment. The connection is closed again, unused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        try:
            connection.connect(str(path))
        except BlockingIOError:  # its queue is full
            return True
        except OSError:
            return False
    return True


async def _hold(meeting: Meeting) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await meeting.channel.close()


def _leave_stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))


@asynccontextmanager
async def probe_kubelet(root: Path, trace: Trace) -> AsyncIterator[ProbeKubelet]:
    """A kubelet in ``root`` that does not listen yet; it has stopped after the block."""
    async with asyncio.TaskGroup() as tasks:
        kubelet = ProbeKubelet(root, tasks, trace)
        try:
            yield kubelet
        finally:
            await kubelet.stop()
