"""Tell a service manager how a process that serves plugins fares: ready means registered and read."""

from __future__ import annotations

import time

from plugbay.ops.service_manager import ServiceManager
from plugbay.sdk.process.roster import Roster


class ToldReadiness:
    """Tells ``manager`` each time that something has changed in ``roster``."""

    def __init__(self, roster: Roster, manager: ServiceManager) -> None:
        self._roster = roster
        self._manager = manager
        self._is_ready = False

    async def keep_told(self) -> None:
        """Tell, until cancelled. A plugin that is not registered any more changes the status only."""
        async for _ in self._roster.changes:
            unready = unready_of(self._roster)
            if unready or self._is_ready:
                self._manager.status("; ".join(unready) or _served(self._roster))
            else:
                self._is_ready = True
                self._manager.ready(_served(self._roster))

    def reload(self) -> None:
        """Make the roster look again; the reload is over when all is ready again."""
        if self._is_ready:  # before, there is no start to be told of twice
            self._is_ready = False
            self._manager.reloading(time.monotonic_ns() // 1000)
        self._roster.reload()
        self._roster.changes.notify()


def unready_of(roster: Roster) -> list[str]:
    """A sentence for each resource, and each target, that is not served to a kubelet now."""
    reports = [server.report for server in roster.servers]
    return [*(f"{each.resource}: {each.reason}" for each in reports if not each.is_ready), *roster.missing]


def _served(roster: Roster) -> str:
    names = [server.resource for server in roster.servers]
    return f"registered: {', '.join(names)}" if names else "nothing to serve"
