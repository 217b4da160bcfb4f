"""Other processes of the same plugin: versions before this one that kept no journal, and those that write it too.

Two overlap while one replaces the other; a kubelet asks the later one, and the earlier one releases. So each has to
hear at once what the other has written.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from plugbay.errors import PathUnusable
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.replicas import physical_id
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.readings import Readings

if TYPE_CHECKING:
    from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)


async def adopt(book: Book, readings: Readings, resource: ResourceName) -> None:
    """Take what the kubelet has given away and the journal does not know for in use: that of an older version.

    Raises:
        CheckpointUnread: what that is cannot be read now.
    """
    known = {unit for use in book.uses() if not use.is_overtaken for unit in use.units}
    by_pod: dict[PodUid, list[DeviceId]] = {}
    found = await asyncio.to_thread(readings.found, asyncio.get_running_loop().time())
    for unit, held_by in found.listed.items():
        if unit not in known:
            by_pod.setdefault(min(held_by)[0], []).append(unit)
    for units in by_pod.values():
        logger.info("%s: %s were given by a process that kept no journal", resource, ", ".join(units))
        with book.keeping():
            book.begin({unit: physical_id(unit) for unit in units}, life="", found=found)


async def listen(book: Book, watches: Watches) -> NoReturn:
    """Have ``book`` take in what others write, when they do, until cancelled."""
    while True:
        bell = book.bell
        with watches.watch([bell]) as changes:
            while book.bell == bell:
                with suppress(PathUnusable):  # said as soon as something is given or taken back
                    book.hear()
                await anext(changes)
