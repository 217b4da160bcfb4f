"""The pages of ``plugbay serve --metrics``."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import Address
from plugbay.ops.pages import serve_pages
from plugbay.sdk.process.pages import PluginPages
from plugbay.sdk.process.roster import Roster
from plugbay.version import VERSION

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc/self")


@asynccontextmanager
async def pages_at(address: Address) -> AsyncIterator[Callable[[Roster], None]]:
    """Answer at ``address`` until the block ends; gives a function that takes the served plugins.

    Raises:
        See `plugbay.ops.pages.serve_pages`; no plugin should be served then.
    """
    pages = PluginPages(SystemClock(), version=VERSION, proc=_PROC)

    def look_at(roster: Roster) -> None:
        pages.roster = roster

    async with serve_pages(pages.pages(), address) as bound:
        logger.info("metrics and probes are answered at %s", bound)
        yield look_at
