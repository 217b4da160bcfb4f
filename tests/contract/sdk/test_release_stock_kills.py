"""Releases on a manager that never calls Deallocate, by plugins that are killed, doubled or rebooted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plugbay.sdk.release.ledger import lines as records
from plugbay.sdk.release.uses import UsePhase
from tests.contract.rigs.manager import DEADLINE_S, bench, pod
from tests.contract.rigs.stock_release import Gophers, journal, served, stock, until_seen

PLUGIN = """
import sys
from plugbay import Device, DevicePlugin, ReleasePolicy, run

class Cleaner(DevicePlugin):
    resource_name = "example.com/gopher"
    release_policy = ReleasePolicy.STRICT

    def discover(self):
        return [Device("a")]

    def release(self, assignment):
        print(assignment.key, flush=True)

run(Cleaner(), argv=["--root", sys.argv[1]])
"""


@asynccontextmanager
async def plugin_process(root: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PLUGIN, str(root), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_killed_plugin_still_knows_what_was_in_use(sockets: Path) -> None:
    async with bench(sockets) as b:
        async with plugin_process(sockets) as process:
            await b.counts(1, 1)
            await b.admit(pod("p"))
            process.kill()
            await b.counts(1, 0)
        await b.release("p")
        async with plugin_process(sockets) as process:
            await b.counts(1, 1)
            await b.admit(pod("q"))
            assert process.stdout is not None
            async with asyncio.timeout(DEADLINE_S):
                assert await process.stdout.readline()


async def test_kill_while_an_older_version_is_taken_over_leaves_its_devices_in_use(sockets: Path) -> None:
    gophers = Gophers("a")
    async with stock(sockets, gophers, interval_s=1000) as b:
        await b.admit(pod("p"))
    journal(sockets).unlink()  # the older version kept none
    async with served(Gophers("a"), sockets, interval_s=1000) as server:
        await server.looked.wait()
        _, *written = journal(sockets).read_bytes().splitlines(keepends=True)
    assert written
    for number in range(1, len(written) + 1):  # killed after so many of its lines
        content = records.read(b"".join(written[:number]))
        assert [use.phase for use in content.uses] == [UsePhase.OPEN]


async def test_second_process_leaves_the_releasing_to_the_first(sockets: Path) -> None:
    first, second = Gophers("a"), Gophers("a")
    async with stock(sockets, first, interval_s=0.2) as b:
        await b.admit(pod("p"))
        async with served(second, sockets, 0.2) as server:
            assert server.release is not None
            await until_seen(sockets, "a")
            await b.release("p")
            await first.until_told("release a")
            assert not server.release.ledger.is_ours
            assert second.told == []


async def test_reboot_ends_every_use(sockets: Path) -> None:
    gophers = Gophers("a")
    async with stock(sockets, gophers, interval_s=1000) as b:
        await b.admit(pod("p"))
    content = records.read(journal(sockets).read_bytes())
    assert content.header is not None
    lines: list[records.Record] = [records.Header("another boot", content.header.resource), *content.uses]
    journal(sockets).write_bytes(b"".join(map(records.encode, lines)))
    again = Gophers("a")
    async with bench(sockets), served(again, sockets, 1000):
        await again.until_told("release a")
    assert again.released[0].units == ("a",)
