"""Keeps a plugin registered while its sockets are there: does what is due, and turns what a kubelet does into events.

The table in `states` says what follows from an event. Only a lost stream tells of a registration that a kubelet forgot.
At ``kubelet.sock`` we then register again. A plugin watcher asks on its own when its kubelet restarts, but a watcher
that still takes us for registered does not ask: a new socket is new to it.

Source: spec 1.6, 1.7, 2.5, 3.6.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.kernel.heaps import give_back
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import first
from plugbay.sdk.serving.handover import Handover
from plugbay.sdk.serving.life import PluginLife
from plugbay.sdk.serving.registration import Registrar
from plugbay.sdk.serving.routes import RegistrationRoute
from plugbay.sdk.serving.service import PluginService
from plugbay.sdk.serving.states import KEPT, LifeEvent, State
from plugbay.sdk.sockets import SocketId, are_there, identify
from plugbay.sdk.watching import PathChanges
from plugbay.wire.pluginregistration import RegistrationStatus

logger = logging.getLogger(__name__)

DRAIN_S: Final = 2.0
"""The time that calls under way, and streams told to end, may take."""
STREAM_PATIENCE_S: Final = 10.0
"""Kubelets ask for the list right after they answered; one that has not by now never will."""
STEADY_S: Final = 1.0
"""The least length of a stream that ends the back-off; after a shorter one, the next may not last either."""


class Keeper:
    """Keeps one plugin registered, from socket to socket.

    Args:
        handover: tells of a younger process that serves the resource.
        kubelet: the socket at which we call the kubelet, if ``route`` says so.
        stopping: is set when everything is to end.
    """

    def __init__(
        self,
        life: PluginLife,
        service: PluginService,
        registrar: Registrar,
        handover: Handover,
        *,
        kubelet: Path,
        route: RegistrationRoute,
        stopping: asyncio.Event,
    ) -> None:
        self._life = life
        self._service = service
        self._registrar = registrar
        self._handover = handover
        handover.changed = self.wake
        self._socket = kubelet
        self._route = route
        self._stopping = stopping
        self._backoff = Backoff(RETRIES)
        self._woken = asyncio.Event()
        self._early_answer: RegistrationStatus | None = None  # of a plugin watcher, before `keep` begins
        self._kubelet: SocketId | None = None
        self._last_kubelet: SocketId | None = None  # the one that any incarnation of ours met last
        self._due = 0.0
        self._times_asked = 0
        self._lost_streams = 0
        self._lost_when_asked = 0  # as many streams were lost when a plugin watcher asked
        self._anew_when_asked = 0  # and so often a new registration had been asked for then

    def wake(self) -> None:
        """Look at what is due now."""
        self._woken.set()

    def ask_anew(self) -> None:
        """Register again, whatever the kubelet thinks."""
        self._times_asked += 1
        self._life.move(LifeEvent.ASKED_ANEW)
        self._due = 0.0
        if not self._route.is_found:
            self._backoff.reset()
        self.wake()

    def begin(self) -> None:
        """Begin without a socket; the first one may be found, and be registered, before `keep` begins."""
        self._kubelet = None
        self._due = 0.0
        self._early_answer = None
        self._handover.stands_by.clear()

    async def keep(self, sockets: Sequence[Path], changes: PathChanges) -> LifeEvent:
        """Stay registered until there have to be new sockets or we are to stop; returns which.

        Args:
            sockets: all of ours; a registration names the first one.
            changes: changes of ``sockets`` and of the kubelet's socket.
        """
        self._life.move(LifeEvent.LISTENING)
        if self._early_answer is not None:
            self.answered(self._early_answer)
        event = await self._until_over(sockets, changes)
        self._life.move(event)
        return event

    async def _until_over(self, sockets: Sequence[Path], changes: PathChanges) -> LifeEvent:
        while not self._stopping.is_set():
            # In this order: a kubelet that starts clears the directory before it makes its own socket.
            kubelet = await self._look_for_kubelet()
            if not await asyncio.to_thread(are_there, sockets):
                return LifeEvent.SOCKET_LOST
            if kubelet != self._kubelet:
                self._meet(kubelet)
            if kubelet is None and self._route.calls:
                self._registrar.absent()
            await self._heed_younger()
            if self._wants_new_socket():
                return LifeEvent.RENEWAL
            delay_s = await self._advance(sockets, changes)
            await first(self._woken.wait(), changes.__anext__(), timeout_s=delay_s)
            self._woken.clear()
        return LifeEvent.STOP_REQUESTED

    async def _look_for_kubelet(self) -> SocketId | None:
        return await asyncio.to_thread(identify, self._socket) if self._route.calls else None

    def _meet(self, kubelet: SocketId | None) -> None:
        is_first, self._kubelet = self._kubelet is None, kubelet
        if kubelet not in (None, self._last_kubelet):
            self._last_kubelet = kubelet
            self._backoff.reset()
        if not is_first:
            self._life.move(LifeEvent.REGISTRATION_LOST)
        if self._life.state in (State.SERVING, State.FORGOTTEN):
            self._due = 0.0

    def _wants_new_socket(self) -> bool:
        return self._route.is_found and self._life.state is State.FORGOTTEN and self._delay_s() <= 0

    async def _heed_younger(self) -> None:
        """Stand by while a younger process serves the resource, and take it back when that one has ended."""
        stands_by = self._life.state is State.STANDING_BY
        if self._handover.is_asked and not stands_by:
            self._life.move(LifeEvent.TAKEN_OVER)
            logger.warning(
                "%s: a younger process serves it now; this one stands by, and registers again should that one end",
                self._life.resource,
            )
            await self._service.stand_by(DRAIN_S)
            self._handover.stands_by.set()
        elif stands_by and not self._handover.is_asked:
            self._handover.stands_by.clear()
            self._service.accept_streams()
            logger.info("%s: the younger process has ended; this one serves it again", self._life.resource)
            self._life.move(LifeEvent.LEFT_READING if self._service.open_streams else LifeEvent.LEFT_ALONE)
            self._due = 0.0

    # --- what is due ------------------------------------------------------------------------------------------------

    async def _advance(self, sockets: Sequence[Path], changes: PathChanges) -> float | None:
        """Do what is due; returns the seconds until something is due again, None when it is the kubelet's turn."""
        if self._is_kubelets_turn():
            return None
        if (delay_s := self._delay_s()) > 0:
            return delay_s
        if self._life.state is State.REGISTERED:
            logger.warning("%s: the kubelet never asked for the list; registering again", self._life.resource)
            self._life.move(LifeEvent.STREAM_MISSING)
            return self._put_off()
        if not self._wants_new_socket():
            await self._register(sockets, changes)
        return self._delay_s()

    def _is_kubelets_turn(self) -> bool:
        match self._life.state:
            case State.REGISTERED:
                return False
            case State.SERVING:
                return self._kubelet is None
            case State.FORGOTTEN:
                return self._kubelet is None and not self._route.is_found
            case _:
                return True

    async def _register(self, sockets: Sequence[Path], changes: PathChanges) -> None:
        asked_before = self._times_asked
        # A kubelet 1.36 takes the end of an old stream for the end of the newest registration, and 1.37 refuses a
        # second one while the first is connected (spec 2.5): so the streams of before end first.
        await self._service.end_streams(DRAIN_S)
        lost_before = self._lost_streams
        async with asyncio.TaskGroup() as tasks:
            registering = tasks.create_task(self._register_in_turn(sockets[0].name))
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
        if self._times_asked > asked_before:  # the call that has just ended was on its way already
            self.ask_anew()

    async def _register_in_turn(self, endpoint: str) -> bool:
        await self._handover.settled.wait()
        if self._handover.is_asked:
            return False
        return await self._registrar.register(endpoint)

    async def _until_outdated(self, sockets: Sequence[Path], changes: PathChanges) -> None:
        """Return when an attempt to register makes no sense any more: a kubelet dials a vanished socket for 10 s."""
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
        """Note that a plugin watcher asks what plugin this is, and so begins to register it."""
        self._lost_when_asked = self._lost_streams
        self._anew_when_asked = self._times_asked

    def answered(self, status: RegistrationStatus) -> None:
        """Note whether a plugin watcher has registered the plugin."""
        if self._life.state not in KEPT:
            self._early_answer = status  # or a late one, which the next beginning forgets
            return
        self._registrar.answered(status)
        if status.plugin_registered:
            self._registered(self._lost_when_asked)
            if self._times_asked > self._anew_when_asked:
                self.ask_anew()
        self.wake()

    def _registered(self, lost_before: int) -> None:
        """Note that a kubelet has accepted the registration.

        Args:
            lost_before: as many streams were lost when the kubelet began to register the plugin.
        """
        if self._service.open_streams:
            self._life.move(LifeEvent.REGISTERED_READING)
            give_back()
        elif self._lost_streams > lost_before:
            self._life.move(LifeEvent.REGISTERED_HUNG_UP)
            self._put_off()
        else:
            self._life.move(LifeEvent.REGISTERED)
            self._due = asyncio.get_running_loop().time() + STREAM_PATIENCE_S

    def streams_changed(self) -> None:
        """Note that the first stream was opened, or that the last one has ended."""
        if self._service.open_streams:
            self._life.move(LifeEvent.STREAM_OPENED)
            if self._life.state is State.STREAMING:
                give_back()  # memory that all this took, which may have gone on for long
        else:
            self._lost_streams += 1
            self._stream_lost()
        self.wake()

    def _stream_lost(self) -> None:
        was_streaming, lasted_s = self._life.state is State.STREAMING, self._life.in_state_s
        self._life.move(LifeEvent.STREAM_LOST)
        if was_streaming:
            if lasted_s >= STEADY_S:
                self._backoff.reset()
            self._put_off()
