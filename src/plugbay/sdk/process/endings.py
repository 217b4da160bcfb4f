"""Reasons for a process to end without being told to, for operators whose supervisor starts it again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from plugbay.errors import RegistrationRefused
from plugbay.ops.tasks import first
from plugbay.sdk.process.roster import Roster

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


async def until_over(roster: Roster, endings: Endings, stop: asyncio.Event) -> RegistrationRefused | None:
    """Wait until ``stop`` is set or one of ``endings`` has come; returns the refusal, if that is the end."""
    refusals: list[RegistrationRefused] = []
    is_refused = asyncio.Event()

    async def until_none() -> None:
        await roster.until_looked()
        if any(server.device_count for server in roster.servers):
            await asyncio.Event().wait()
        logger.info("no plugin found a device; ending, as --exit-if-none says")

    def refuse(error: RegistrationRefused) -> None:
        refusals.append(error)
        is_refused.set()

    waits: list[Callable[[], Coroutine[Any, Any, object]]] = [stop.wait]
    if endings.on_refusal is OnRefusal.EXIT:
        waits.append(is_refused.wait)
        roster.on_refusal = refuse
    if endings.if_none is IfNone.EXIT:
        waits.append(until_none)
    await first(*(wait() for wait in waits))
    return refusals[0] if refusals else None
