"""Animals that start, live or end badly."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from plugbay.kernel.watch import watch_paths
from plugbay.ops.tasks import background
from tests.contract.testing.zoo.animal import Animal, Identity, identity, rules


class SpinsCpu(Animal):
    caught_by = rules(809)

    async def live(self) -> None:
        async with background(self._spin(), name="spin"):
            await super().live()

    async def _spin(self) -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(0)


class WakesOften(Animal):
    """Looks at its devices 250 times a second."""

    caught_by = rules(810)

    async def live(self) -> None:
        async with background(self._look(), name="look"):
            await super().live()

    async def _look(self) -> None:
        for _ in itertools.repeat(None):
            await asyncio.sleep(0.004)


class PrintsMuch(Animal):
    caught_by = rules(811)

    async def live(self) -> None:
        async with background(self._print(), name="print"):
            await super().live()

    async def _print(self) -> None:
        while True:
            sys.stderr.write("all animals are well\n" * 500)
            await asyncio.sleep(0.1)


class IgnoresSigterm(Animal):
    caught_by = rules(901, 904)

    def stop(self) -> None:
        pass


class DiesOfSigterm(Animal):
    """Has no handler: as process 1 of a container it would not end at all."""

    caught_by = rules(905)

    async def run(self) -> None:
        asyncio.get_running_loop().call_soon(signal.signal, signal.SIGTERM, signal.SIG_DFL)
        await super().run()


class FailsAtTheEnd(Animal):
    caught_by = rules(902)

    async def run(self) -> None:
        await super().run()
        sys.exit(3)


class LeavesSocket(Animal):
    caught_by = rules(903)

    def stop(self) -> None:
        os._exit(0)


class SharesItsSocket(Animal):
    """Takes the socket of another instance away, at its start and at its end."""

    caught_by = rules(911)

    def name(self) -> str:
        return "animal.sock"

    async def until_lost(self, served: Identity) -> None:
        """Also notice an instance that took the socket before we looked at it: there would be peace by chance."""
        owner, me = self.sick.with_name("owner"), str(os.getpid())
        async with watch_paths([self.socket, owner]) as changes:
            owner.write_text(me, encoding="utf-8")
            while identity(self.socket) == served and owner.read_text(encoding="utf-8") in ("", me):
                await anext(changes)


class StumblesOverOldSocket(Animal):
    """Does not start while the socket of an instance that was killed lies there."""

    caught_by = rules(912)

    def name(self) -> str:
        for old in self.directory.glob("animal-*.sock"):
            if not Path("/proc", old.name.split("-")[1]).exists():
                raise OSError(f"{old}: address already in use")
        return super().name()


class IgnoresSigint(Animal):
    caught_by = rules(904)

    def handlers(self) -> Mapping[signal.Signals, Callable[[], None]]:
        return {**super().handlers(), signal.SIGINT: lambda: None}


class TakesSocketOver(Animal):
    """Has one socket for all instances: the second takes that of the first, which does not miss it."""

    caught_by = rules(109, 702, 703, 707, 907)

    def name(self) -> str:
        return "animal.sock"

    async def until_lost(self, served: Identity) -> None:
        await self.stopping.wait()


class RemovesSocketOfSuccessor(TakesSocketOver):
    """Removes the socket when it ends, whoever has it now."""

    caught_by = rules(109, 702, 703, 707, 907, 908)

    def stop(self) -> None:
        self.socket.unlink(missing_ok=True)
        super().stop()
