"""Two processes that serve one resource, as while one replaces the other: the older one stands by for the younger.

A kubelet up to 1.36 takes the end of the older one's stream for the end of the younger one, and lets lists of both
overwrite each other. So the younger one finds the older one's socket, and has it end its streams before it registers
itself. The call stays open: when the younger one ends, be it by a crash, the older one registers again.

Two that begin together find each other, as each looks for sockets after it has made its own; an older one that asks is
refused, and makes the younger one look again.

Source: spec 2.5; kubelet 1.37 ``cm/devicemanager``, pull request 135437.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import PlugbayError, RpcCode, RpcFailed
from plugbay.model.ids import ResourceName
from plugbay.ops.tasks import first
from plugbay.wire.handover import Began, standing_by

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 5.0
"""The time that an older process has to stand by; a process that hangs holds up no other one."""


class Handover:
    """The part of one process in the order of those that serve a resource.

    Attributes:
        changed: called when a younger process asks this one to stand by, and when the last of them has ended.
        settled: set while it is known whether this process is to be registered: a younger one wants it to stand by, or
            every older one stands by or has not answered.
        stands_by: to be set while this one has no streams for the sake of a younger one.
    """

    def __init__(self, resource: ResourceName) -> None:
        self.changed: Callable[[], None] = lambda: None
        self.settled = asyncio.Event()
        self.settled.set()
        self.stands_by = asyncio.Event()
        self._resource = resource
        self._began: Began = (asyncio.get_running_loop().time(), os.urandom(4).hex())
        self._younger = 0
        self._was_asked = asyncio.Event()
        self._look = asyncio.Event()
        self._is_over = asyncio.Event()
        self._asked: set[Path] = set()
        self._unanswered: set[Path] = set()

    @property
    def is_asked(self) -> bool:
        """Whether a younger process wants this one to stand by."""
        return self._younger > 0

    # --- as the older one -------------------------------------------------------------------------------------------

    async def stand_by(self, caller: Began) -> AsyncGenerator[None, None]:
        """Stand by until the iteration is closed; yields when this process does.

        Raises:
            RpcFailed: the caller is the older one.
        """
        if caller <= self._began:
            self._look.set()
            raise RpcFailed(RpcCode.FAILED_PRECONDITION, f"this process serves {self._resource} since later")
        self._younger += 1
        self._was_asked.set()
        self.settled.set()
        self.changed()
        try:
            if await self._until(self.stands_by):
                yield
                await self._is_over.wait()
        finally:
            self._younger -= 1
            if not self._younger:
                self._was_asked.clear()
                self.changed()

    async def _until(self, event: asyncio.Event) -> bool:
        """Wait for ``event``; False when our sockets go before it comes."""
        await first(event.wait(), self._is_over.wait())
        return event.is_set() and not self._is_over.is_set()

    # --- as the younger one -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def looking(self, find: Callable[[], Sequence[Path]]) -> AsyncIterator[None]:
        """Have all older processes stand by during the block, in which our own sockets are there.

        Args:
            find: the sockets of other processes that serve the resource; it may wait for the disk.
        """
        self._is_over.clear()
        self.settled.clear()
        self._look.set()
        async with asyncio.TaskGroup() as tasks:
            looks = tasks.create_task(self._look_again_and_again(find))
            try:
                yield
            finally:
                looks.cancel()

    def let_go(self) -> None:
        """Our sockets go: end the calls of younger processes, which have nothing to wait for any more."""
        self._is_over.set()

    async def _look_again_and_again(self, find: Callable[[], Sequence[Path]]) -> None:
        async with asyncio.TaskGroup() as calls:
            while True:
                await self._look.wait()
                self._look.clear()
                self._ask(await asyncio.to_thread(find), calls)

    def _ask(self, found: Iterable[Path], calls: asyncio.TaskGroup) -> None:
        for socket in found:
            if socket not in self._asked:
                self._asked.add(socket)
                self._unanswered.add(socket)
                calls.create_task(self._call(socket))
        self._settle()

    async def _call(self, socket: Path) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S) as patience, aclosing(standing_by(socket, self._began)) as answers:
                async for _ in answers:
                    patience.reschedule(None)
                    logger.info("%s: the older process at %s stands by from now on", self._resource, socket.name)
                    self._unanswered.discard(socket)
                    self._settle()
        except (TimeoutError, PlugbayError) as error:  # it is younger, ends, hangs, or is not of our kind
            logger.debug("%s: %s does not stand by: %s", self._resource, socket.name, error)
            if isinstance(error, RpcFailed) and error.code is RpcCode.FAILED_PRECONDITION:
                await first(self._was_asked.wait(), timeout_s=PATIENCE_S)
        finally:
            self._asked.discard(socket)
            self._unanswered.discard(socket)
            self._settle()

    def _settle(self) -> None:
        if self.is_asked or not self._unanswered:
            self.settled.set()
