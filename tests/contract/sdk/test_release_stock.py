"""Releases on a manager that never calls Deallocate, as no kubelet does: over real sockets, files and processes."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from plugbay import ContainerEdits, Device, Origin, ReleasePolicy, Replicas
from plugbay.errors import AdmissionError
from plugbay.manager.checkpoint.view import DEBOUNCE_S
from plugbay.ops.slices import json_pieces
from plugbay.sdk.author.release_settings import ReleaseSource
from plugbay.sdk.release import uses
from plugbay.sdk.release.evidence import evidence
from plugbay.sdk.release.ledger import lines as records
from plugbay.sdk.release.report import release_status
from tests.contract.rigs.manager import DEADLINE_S, bench, pod
from tests.contract.rigs.stock_release import (
    Gophers,
    Stopping,
    journal,
    served,
    stock,
    until_files,
    until_said,
    until_seen,
    with_init,
)


async def test_the_end_of_a_pod_is_noticed(sockets: Path) -> None:
    gophers = Gophers("a", "b")
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"), pod("q"))
        await until_seen(sockets, "a", "b")
        await b.release("p")
        await gophers.until_told("release a")
        [assignment] = gophers.released
        assert assignment.origin is Origin.SYNTHESISED
        assert [(owner.uid, owner.container) for owner in assignment.owners] == [("p", "app")]


async def test_next_allocate_releases_first(sockets: Path) -> None:
    gophers = Gophers("a")
    async with stock(sockets, gophers, interval_s=1000) as b:
        await b.admit(pod("p"))
        await b.release("p")
        assert gophers.told == []
        await b.admit(pod("q"))
        assert gophers.told == ["release a"]


async def test_the_end_of_a_pod_that_no_look_has_ever_found_is_believed_after_a_while(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (uses, evidence):
        monkeypatch.setattr(module, "GRACE_S", 0.5)
    gophers = Gophers("a")
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"))
        await b.release("p")
        await gophers.until_told("release a")
        [assignment] = gophers.released
        assert (assignment.origin, assignment.owners) == (Origin.SYNTHESISED, ())


async def test_app_container_takes_over_from_its_init_container(sockets: Path) -> None:
    gophers = Gophers("a")
    async with stock(sockets, gophers, interval_s=1000) as b:
        await b.admit(with_init("p"))
        assert gophers.told == []
        await b.release("p")
        await b.admit(with_init("q"))
        assert gophers.told == ["release a"]


async def test_running_pod_is_left_alone(sockets: Path) -> None:
    gophers = Gophers("a", "b")
    async with stock(sockets, gophers, interval_s=0.05) as b:
        await b.admit(pod("p"), pod("q"))
        await until_seen(sockets, "a", "b")
        await b.release("q")
        await gophers.until_told("release b")  # several looks later, a is still p's
        await b.admit(pod("q2"))
        await until_seen(sockets, "b")
        await b.release("q2")
        await gophers.until_told("release b", "release b")


async def test_restart_of_a_container_post_stops_it(sockets: Path) -> None:
    gophers = Stopping("a")
    async with stock(sockets, gophers, interval_s=0.2) as b:
        await b.admit(pod("p"))
        await b.prepare("p")
        assert gophers.told == []
        await b.prepare("p")
        assert gophers.told == ["post_stop a"]
        await until_seen(sockets, "a")
        await b.release("p")
        await gophers.until_told("post_stop a", "post_stop a", "release a")


async def test_failed_release_keeps_the_device_from_the_next_pod(sockets: Path) -> None:
    gophers = Gophers("a")
    gophers.problem = "the drive does not answer"
    async with stock(sockets, gophers, interval_s=1000) as b:
        await b.admit(pod("p"))
        await b.release("p")
        with pytest.raises(AdmissionError, match=r"before they are released: release\(\) failed: .*the drive does not"):
            await b.admit(pod("q"))
        gophers.problem = ""
        await b.admit(pod("q2"))


async def test_strict_refuses_what_it_cannot_see_and_lazy_gives_it(sockets: Path) -> None:
    for policy in ReleasePolicy:
        gophers = Gophers("a")
        gophers.release_policy = policy
        async with stock(sockets / policy.value, gophers, interval_s=1000) as b:
            await b.admit(pod("p"))
            await b.release("p")
            b.paths.registration_socket.unlink()
            if policy is ReleasePolicy.STRICT:
                with pytest.raises(AdmissionError, match="before they are released"):
                    await b.admit(pod("q"))
            else:
                await b.admit(pod("q"))
            assert gophers.told == []


class Slow(Gophers):
    """Its allocate() takes until `may_end`, the first time."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        is_first = not self.begun.is_set()
        self.begun.set()
        assert self.may_end.wait(DEADLINE_S)
        self.told.append("allocated too late" if is_first else "allocated")
        return ContainerEdits()


async def give_up(admission: asyncio.Task[None]) -> None:
    """Break off the Allocate that is under way for it."""
    admission.cancel()
    await asyncio.wait([admission])
    assert admission.cancelled()


async def test_device_of_a_call_that_was_given_up_is_released_after_its_hook(sockets: Path) -> None:
    gophers = Slow("a")
    async with bench(sockets) as b, served(gophers, sockets, interval_s=1000) as server:
        await b.counts(1, 1)
        assert server.release is not None
        quiet = server.release.context.shared.quiet
        first = asyncio.create_task(b.admit(pod("p")))
        assert await asyncio.to_thread(gophers.begun.wait, DEADLINE_S)
        await give_up(first)
        second = asyncio.create_task(b.admit(pod("q")))
        async with asyncio.timeout(DEADLINE_S):
            while quiet.begun < 2:  # noqa: ASYNC110  # it waits for the first's allocate(), and nobody is told
                await asyncio.sleep(0.01)
        await give_up(second)
        assert gophers.told == []
        gophers.may_end.set()
        await b.admit(pod("r"))
        # The plugin may hear only now that the second was given up, too.
        given_up = ["allocated too late", "release a"], ["allocated too late", "release a", "allocated", "release a"]
        assert gophers.told[:-1] in given_up
        assert gophers.told[-1] == "allocated"


async def test_kubelet_that_restarts_finds_nothing_released_in_use(sockets: Path) -> None:
    """A new kubelet that has read the checkpoint drops a pod; for a minute that proves nothing, as it may still run."""
    gophers = Gophers("a", "b")
    async with served(gophers, sockets, 0.05) as server:
        async with bench(sockets) as b:
            await b.counts(2, 2)
            await b.admit(pod("p"), pod("q"))
            await until_seen(sockets, "a", "b")
        assert server.release is not None
        async with bench(sockets) as b:
            await b.counts(2, 2)
            await b.release("q")
            release = server.release
            await until_said(
                lambda: any("containers of pods that it refused" in each for each in release.sweep.doubts.values())
            )
            with pytest.raises(AdmissionError, match="the kubelet started"):
                await b.admit(pod("q2"))
            assert open_units(sockets) == {"a", "b"}
            assert gophers.told == []
            [status, other] = cast("list[dict[str, Any]]", release_status(release, "{:.0f}".format)["open"])
            assert {status["waitsFor"].partition(" ")[0], other["waitsFor"].partition(" ")[0]} == {"its", "the"}


class Replicated(Gophers):
    """One device that two containers may have."""

    def discover(self) -> Sequence[Device]:
        return [Device("g", sharing=Replicas(2))]


def open_units(root: Path) -> set[str]:
    return {unit for use in records.read(journal(root).read_bytes()).uses for unit in use.units}


async def test_device_is_released_when_nobody_has_a_replica_of_it(sockets: Path) -> None:
    gophers = Replicated("g::0", "g::1")
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"), pod("q"))
        await until_seen(sockets, "g::0", "g::1")
        await b.release("p")
        await until_said(lambda: open_units(sockets) == {"g::1"})
        assert gophers.told == []
        await b.release("q")
        await gophers.until_told("release g::1")
        [assignment] = gophers.released
        assert assignment.device_ids == ("g",)


async def test_replicas_that_end_together_are_released_once(sockets: Path) -> None:
    gophers = Replicated("g::0", "g::1")
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"), pod("q"))
        await until_seen(sockets, "g::0", "g::1")
        await b.release("p")
        await b.release("q")
        await until_said(lambda: not open_units(sockets))
        assert [assignment.device_ids for assignment in gophers.released] == [("g",)]


async def test_a_replica_is_not_given_while_its_device_is_released(sockets: Path) -> None:
    gophers = Replicated("g::0", "g::1")
    gophers.problem = "the drive does not answer"
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"), pod("q"))
        await until_seen(sockets, "g::0", "g::1")
        await b.release("p")
        await until_said(lambda: open_units(sockets) == {"g::1"})
        await b.release("q")
        async with asyncio.timeout(DEADLINE_S):
            await gophers.news.wait()
        with pytest.raises(AdmissionError, match=r"g::0 of example.com/gopher before they are released"):
            await b.admit(pod("r"))


async def test_what_cannot_be_written_down_is_not_released(sockets: Path) -> None:
    gophers = Gophers("a")
    async with stock(sockets, gophers) as b:
        await b.admit(pod("p"))
        await until_seen(sockets, "a")
        kept = journal(sockets).with_suffix(".kept")
        journal(sockets).rename(kept)
        journal(sockets).mkdir()
        await b.release("p")
        said: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("plugbay.sdk.release").addHandler(handler)
        try:
            await until_said(lambda: any("which devices are in use" in each for each in said))
        finally:
            logging.getLogger("plugbay.sdk.release").removeHandler(handler)
        assert gophers.told == []
        journal(sockets).rmdir()
        kept.rename(journal(sockets))
        await gophers.until_told("release a")


async def test_status_tells_what_a_release_waits_for(sockets: Path) -> None:
    gophers = Gophers("a")
    async with bench(sockets) as b, served(gophers, sockets, 0.2) as server:
        assert server.release is not None
        await b.counts(1, 1)
        await b.admit(pod("p"))
        await until_seen(sockets, "a")
        status = json.loads("".join(json_pieces(release_status(server.release, "{:.0f}".format))))
        [use] = status["open"]
        assert status["source"] == "auto"
        problem = f"there is no {sockets}/pod-resources/kubelet.sock"
        assert status["podResources"] == problem
        waits_for = f"its pod to end, which the kubelet notices only when another pod with devices comes: {problem}"
        assert (use["phase"], use["waitsFor"]) == ("open", waits_for)
        assert [owner["uid"] for owner in use["owners"]] == ["p"]
        half_written = release_status(server.release, "{:.0f}".format)
        server.release.evidence.last = "it is a directory", 0.0
        [use] = cast("list[dict[str, Any]]", half_written["open"])
        assert use["waitsFor"] == waits_for, "one page tells of one reading"


async def test_off_calls_nothing_and_asks_for_nothing(sockets: Path) -> None:
    gophers = Stopping("a")
    gophers.release_policy = ReleasePolicy.LAZY
    async with bench(sockets) as b, served(gophers, sockets, source=ReleaseSource.OFF):
        await b.counts(1, 1)
        await b.admit(pod("p"))
        await b.release("p")
        await b.admit(pod("q"))
        assert gophers.told == []
        assert not journal(sockets).exists()


async def test_strict_looks_even_if_only_calls_count(sockets: Path) -> None:
    gophers = Gophers("a")
    async with bench(sockets) as b, served(gophers, sockets, source=ReleaseSource.KUBELET):
        await b.counts(1, 1)
        await b.admit(pod("p"))
        await b.release("p")
        await b.admit(pod("q"))
        assert gophers.told == ["release a"]


@pytest.mark.parametrize("is_same", [True, False], ids=["same-store", "another-store"])
async def test_manager_with_the_store_of_before_is_believed_whatever_the_plugin_missed(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, is_same: bool
) -> None:
    """Node and plugin are killed, and the pod ends before the plugin is back: of a kubelet nothing would ever tell."""
    monkeypatch.setattr(uses, "SETTLE_S", 0.0)
    gophers = Gophers("a")
    async with bench(sockets) as b:
        async with served(gophers, sockets):
            await b.counts(1, 1)
            await b.admit(pod("p"))
        checkpoint, store = b.paths.checkpoint, b.config.store
    if not is_same:
        for path in (checkpoint, *store.parent.iterdir()):
            path.unlink()
    async with bench(sockets) as b:
        await b.release("p")
        started_ns = b.paths.registration_socket.stat().st_ctime_ns

        def is_rewritten() -> bool:
            is_new = checkpoint.exists() and checkpoint.stat().st_mtime_ns > started_ns
            return is_new and b'"PodUID":"p"' not in checkpoint.read_bytes()

        await b.clock.sleep_through(DEBOUNCE_S)
        await until_files([checkpoint], is_rewritten)
        async with served(gophers, sockets):
            await b.counts(1, 1)
            if is_same:
                await b.admit(pod("q"))
                assert gophers.told == ["release a"]
            else:
                with pytest.raises(AdmissionError, match="nothing shows that its checkpoint survived"):
                    await b.admit(pod("q"))
