"""Reasons for a process to end without being told to, for operators whose supervisor starts it again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, Final

from plugbay.errors import PlugbayError
from plugbay.ops.tasks import first
from plugbay.sdk.process.roster import Roster
from plugbay.values import dataclass

logger = logging.getLogger(__name__)


class OnRefusal(Enum):
    """The reaction to a kubelet that refuses a registration."""

    ASK_AGAIN = auto()
    EXIT = auto()
    """End with an error, as the device plugin API asks for; back-off is left to what starts the process."""


class IfNone(Enum):
    """The reaction when no plugin of the process finds a device at first."""

    WAIT = auto()
    EXIT = auto()
    """End well, so that a pod that is restarted on failure only is done."""


@dataclass(frozen=True, slots=True)
class Endings:
    """The ends that a process has besides being told to stop."""

    on_refusal: OnRefusal = OnRefusal.ASK_AGAIN
    if_none: IfNone = IfNone.WAIT


STAY: Final = Endings()


async def until_over(roster: Roster, endings: Endings, stop: asyncio.Event) -> PlugbayError | None:
    """Wait until ``stop`` is set or one of ``endings`` has come; returns the error that is the end, if it is one.

    That is a refused registration, or a source that can serve nothing at all.
    """
    errors: list[PlugbayError] = []
    has_failed = asyncio.Event()

    async def until_none() -> None:
        await roster.until_looked()
        if any(server.device_count for server in roster.servers):
            await asyncio.Event().wait()
        logger.info("no plugin found a device; ending, as --exit-if-none says")

    def fail(error: PlugbayError) -> None:
        errors.append(error)
        has_failed.set()

    waits: list[Callable[[], Coroutine[Any, Any, object]]] = [stop.wait, has_failed.wait]
    roster.on_unusable = fail
    if endings.on_refusal is OnRefusal.EXIT:
        roster.on_refusal = fail
    if endings.if_none is IfNone.EXIT:
        waits.append(until_none)
    await first(*(wait() for wait in waits))
    return errors[0] if errors else None
