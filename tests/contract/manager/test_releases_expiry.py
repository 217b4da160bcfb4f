"""Deallocate for devices of a plugin that did not come back in time (spec 3.7, 12.8)."""

from __future__ import annotations

from pathlib import Path

from plugbay.model.releases import OperationKind
from tests.contract.rigs.manager import GOPHER, pod
from tests.contract.rigs.release import BOTH, WITHOUT, gated
from tests.contract.scenarios.test_11_4_lists import expired


async def test_what_is_due_outlives_the_resource(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        await b.manager.admit(pod("p"))
        gopher.end_streams()
        await b.counts(1, 0)
        await b.release("p")
        await expired(b, gopher)
        assert b.manager.releases.pending() == {(OperationKind.DEALLOCATE, GOPHER): 1}
        await gopher.register(b.paths.registration_socket)
        await b.until(lambda: not b.manager.releases.pending())
        assert [each.devices for each in gopher.deallocated] == [("a",)]
        await b.counts(1, 1)


async def test_pod_that_ends_after_the_resource_is_told_of_too(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=BOTH)
        await b.manager.admit(pod("p"))
        await expired(b, gopher)
        await b.release("p")
        assert b.manager.releases.pending() == {(OperationKind.DEALLOCATE, GOPHER): 1}


async def test_plugin_that_wants_no_calls_is_owed_none_when_it_has_expired(sockets: Path) -> None:
    async with gated(sockets) as b:
        gopher = await b.plugin("a", options=WITHOUT)
        await b.manager.admit(pod("p"))
        await expired(b, gopher)
        await b.release("p")
        assert not b.manager.releases.pending()
