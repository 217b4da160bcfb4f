"""Other processes of the same plugin: earlier versions that kept no journal, and processes that write it too.

Two processes overlap while one replaces the other. A kubelet asks the later one, and the earlier one releases, so each
has to hear at once what the other has written.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from plugbay.errors import PathUnusable
from plugbay.model.ids import DeviceId, PodUid
from plugbay.model.sharing import physical_id
from plugbay.sdk.release.context import Context
from plugbay.sdk.release.ledger.ledger import Ledger

if TYPE_CHECKING:
    from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)


async def adopt(context: Context) -> None:
    """Take devices for in use that the kubelet has given away and the journal does not know: an older version's.

    Raises:
        CheckpointUnread: it cannot be read now which devices these are.
    """
    ledger = context.ledger
    known = {unit for use in ledger.uses() if not use.is_overtaken for unit in use.units}
    by_pod: dict[PodUid, list[DeviceId]] = {}
    found = await context.evidence.found()
    for unit, held_by in found.listed.items():
        if unit not in known:
            by_pod.setdefault(min(held_by)[0], []).append(unit)
    for units in by_pod.values():
        text = "%s: %s were given by a process that kept no journal; they count as in use"
        logger.info(text, context.resource, ", ".join(units))
        with ledger.keeping():
            ledger.begin({unit: physical_id(unit) for unit in units}, life="", found=found)


async def listen(ledger: Ledger, watches: Watches) -> NoReturn:
    """Let ``ledger`` take in what other processes write, when they write it, until cancelled."""
    while True:
        bell = ledger.bell
        with watches.watch([bell]) as changes:
            while ledger.bell == bell:
                with suppress(PathUnusable):  # it is said as soon as something is given or taken back
                    ledger.hear()
                await anext(changes)
