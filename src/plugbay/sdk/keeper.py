"""Keeps a plugin registered while its sockets are there: what is due, and what the kubelet's doings mean.

A lost stream is the only word of a registration that a kubelet forgot. At ``kubelet.sock`` we then register again. A
plugin watcher asks on its own when its kubelet restarts, but one that still takes us for registered asks nobody: a
new socket is new to it.

Source: spec 1.6, 1.7, 2.5, 3.6.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.kernel.heaps import give_back
from plugbay.sdk.backoff import Backoff
from plugbay.sdk.life import Life
from plugbay.sdk.registration import Registrar
from plugbay.sdk.routes import Route
from plugbay.sdk.service import PluginService
from plugbay.sdk.sockets import SocketId, are_there, identify
from plugbay.sdk.states import Event, State
from plugbay.sdk.waiting import wait_first
from plugbay.sdk.watching import Changes
from plugbay.wire.pluginregistration import RegistrationStatus

logger = logging.getLogger(__name__)

DRAIN_S: Final = 2.0
"""How long calls under way, and streams told to end, may take."""
STREAM_PATIENCE_S: Final = 10.0
"""Kubelets ask for the list right after they answered; one that has not by now never will."""
STEADY_S: Final = 1.0
"""A stream that lasted less says that the next one may not last either: the back-off goes on."""


class Keeper:
    """Keeps one plugin registered, from socket to socket.

    Args:
        kubelet: where we call it, if ``route`` says so.
        stopping: set when everything is to end.
    """

    def __init__(
        self,
        life: Life,
        service: PluginService,
        registrar: Registrar,
        *,
        kubelet: Path,
        route: Route,
        stopping: asyncio.Event,
    ) -> None:
        self._life = life
        self._service = service
        self._registrar = registrar
        self._socket = kubelet
        self._route = route
        self._stopping = stopping
        self._backoff = Backoff()
        self._woken = asyncio.Event()
        self._is_keeping = False
        self._is_asked_anew = False
        self._is_forgotten = False  # and a plugin watcher may not know
        self._answer: RegistrationStatus | None = None  # of a plugin watcher, while nobody keeps
        self._kubelet: SocketId | None = None
        self._last_kubelet: SocketId | None = None  # of any incarnation of ours
        self._due = 0.0
        self._streaming_since = 0.0
        self._had_streams = False
        self._lost_streams = 0
        self._lost_before = 0

    def wake(self) -> None:
        """Look at what is due now."""
        self._woken.set()

    def ask_anew(self) -> None:
        """Register again, whatever the kubelet thinks."""
        self._is_asked_anew = True
        self.wake()

    def begin(self) -> None:
        """There is no socket; the first one may be found, and be registered, before `keep` begins."""
        self._kubelet = None
        self._is_forgotten = self._is_asked_anew = False
        self._due = 0.0
        self._answer = None

    async def keep(self, sockets: Sequence[Path], changes: Changes) -> Event:
        """Stay registered until there have to be new sockets or we are to stop; returns which.

        Args:
            sockets: all of ours; the first one is what we name to a kubelet that we call.
            changes: those of ``sockets`` and of the kubelet's.
        """
        self._is_keeping = True
        self._life.move(Event.LISTENING)
        if self._answer is not None:
            self.answered(self._answer)
        try:
            event = await self._until_over(sockets, changes)
        finally:
            self._is_keeping = False
        self._life.move(event)
        return event

    async def _until_over(self, sockets: Sequence[Path], changes: Changes) -> Event:
        while not self._stopping.is_set():
            # In this order: a kubelet that starts clears the directory before it makes its own socket.
            kubelet = await self._look_for_kubelet()
            if not await asyncio.to_thread(are_there, sockets):
                return Event.SOCKET_LOST
            if kubelet != self._kubelet:
                self._meet(kubelet)
            if kubelet is None and self._route.calls:
                self._registrar.absent()
            if self._wants_new_socket():
                return Event.RENEWAL
            delay_s = await self._advance(sockets, changes)
            await wait_first(self._woken.wait, changes.__anext__, timeout_s=delay_s)
            self._woken.clear()
        return Event.STOP_REQUESTED

    async def _look_for_kubelet(self) -> SocketId | None:
        return await asyncio.to_thread(identify, self._socket) if self._route.calls else None

    def _meet(self, kubelet: SocketId | None) -> None:
        is_first, self._kubelet = self._kubelet is None, kubelet
        if kubelet not in (None, self._last_kubelet):
            self._last_kubelet = kubelet
            self._backoff.reset()
        if not is_first:
            self._lose_registration()
        if self._life.state is State.SERVING:
            self._due = 0.0

    def _lose_registration(self) -> None:
        if self._life.state is not State.SERVING:
            self._life.move(Event.REGISTRATION_LOST)

    def _wants_new_socket(self) -> bool:
        is_asked_anew, self._is_asked_anew = self._is_asked_anew, False
        if self._route.is_found:
            return is_asked_anew or (self._is_forgotten and self._life.state is State.SERVING and self._delay_s() <= 0)
        if is_asked_anew:
            self._backoff.reset()
            self._due = 0.0
            self._lose_registration()
        return False

    # --- what is due ------------------------------------------------------------------------------------------------

    async def _advance(self, sockets: Sequence[Path], changes: Changes) -> float | None:
        """Do what is due; returns the seconds until something is due again, None when it is the kubelet's turn."""
        if self._is_kubelets_turn():
            return None
        if (delay_s := self._delay_s()) > 0:
            return delay_s
        if self._life.state is State.REGISTERED:
            logger.warning("%s: the kubelet never asked for the list; registering again", self._life.resource)
            self._life.move(Event.STREAM_MISSING)
            self._is_forgotten = True
            return self._put_off()
        if not self._is_forgotten or not self._route.is_found:
            await self._register(sockets, changes)
        return self._delay_s()

    def _is_kubelets_turn(self) -> bool:
        match self._life.state:
            case State.REGISTERED:
                return False
            case State.SERVING:
                is_dialling = self._kubelet is not None
                return not is_dialling and not (self._is_forgotten and self._route.is_found)
            case _:
                return True

    async def _register(self, sockets: Sequence[Path], changes: Changes) -> None:
        # A kubelet 1.36 takes the end of an old stream for the end of the newest registration, and 1.37 refuses a
        # second one while the first is connected (spec 2.5): so the streams of before end first.
        await self._service.end_streams(DRAIN_S)
        lost_before = self._lost_streams
        async with asyncio.TaskGroup() as tasks:
            registering = tasks.create_task(self._registrar.register(sockets[0].name))
            others = (
                tasks.create_task(self._until_outdated(sockets, changes)),
                tasks.create_task(self._stopping.wait()),
            )
            await asyncio.wait((registering, *others), return_when=asyncio.FIRST_COMPLETED)
            for task in (registering, *others):
                task.cancel()
        self.wake()  # it may have swallowed a change: look again
        if registering.cancelled():
            return
        if registering.result():
            self._registered(lost_before)
        else:
            self._put_off()

    async def _until_outdated(self, sockets: Sequence[Path], changes: Changes) -> None:
        """Until an attempt to register makes no sense any more: a kubelet dials a vanished socket for 10 s."""
        async for _ in changes:
            if await self._look_for_kubelet() != self._kubelet or not await asyncio.to_thread(are_there, sockets):
                return

    def _put_off(self) -> float:
        self._due = asyncio.get_running_loop().time() + self._backoff.next_delay_s()
        return self._delay_s()

    def _delay_s(self) -> float:
        return self._due - asyncio.get_running_loop().time()

    # --- what the kubelet does --------------------------------------------------------------------------------------

    def asked(self) -> None:
        """A plugin watcher asks who we are: it begins to register us."""
        self._lost_before = self._lost_streams

    def answered(self, status: RegistrationStatus) -> None:
        """A plugin watcher says what became of it."""
        if not self._is_keeping:
            self._answer = status  # early, or too late, which the next beginning forgets
            return
        self._registrar.answered(status)
        if status.plugin_registered:
            self._is_forgotten = False
            self._registered(self._lost_before)
        self.wake()

    def _registered(self, lost_before: int) -> None:
        self._life.move(Event.REGISTERED)
        self._due = asyncio.get_running_loop().time() + STREAM_PATIENCE_S
        if self._service.open_streams:
            self._stream_opened()
        elif self._lost_streams > lost_before:  # a kubelet that was faster with hanging up than with its answer
            self._stream_opened()
            self._stream_lost()

    def streams_changed(self) -> None:
        """A stream was opened, or has ended."""
        has_streams = self._service.open_streams > 0
        if has_streams == self._had_streams:
            return
        self._had_streams = has_streams
        if has_streams:
            self._stream_opened()
        else:
            self._stream_lost()
        self.wake()

    def _stream_opened(self) -> None:
        self._streaming_since = asyncio.get_running_loop().time()
        self._life.move(Event.STREAM_OPENED)
        if self._life.state is State.STREAMING:
            give_back()  # what all this took, which may have gone on for long

    def _stream_lost(self) -> None:
        self._lost_streams += 1
        was_streaming = self._life.state is State.STREAMING
        self._life.move(Event.STREAM_LOST)
        if was_streaming:
            self._is_forgotten = True
            if asyncio.get_running_loop().time() - self._streaming_since >= STEADY_S:
                self._backoff.reset()
            self._put_off()
