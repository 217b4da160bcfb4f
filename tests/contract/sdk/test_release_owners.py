"""Whose the devices are, as hooks are told: looked up at a container's start, or by a look at what is in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay import Assignment, Origin
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.assignments import Owner
from plugbay.model.ids import PodUid
from plugbay.model.requests import PodRequest
from plugbay.sdk.release import starts
from plugbay.sdk.release.evidence import pod_lists as quiet
from plugbay.sdk.release.release import Release
from tests.contract.rigs.manager import DEADLINE_S, Bench, bench, pod
from tests.contract.rigs.release import ON
from tests.contract.rigs.stock_release import OTHERS, Gophers, Pods, Stopping, served, until_said, with_init

NAMELESS = Owner(namespace="default", pod="p", container=pod("p").containers[0].name)
"""As PodResources tells it, which knows no UIDs."""
OWNER = Owner(namespace="default", pod="p", container=NAMELESS.container, uid=PodUid("p"))


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "QUIET_S", 20.0)


@asynccontextmanager
async def run(
    root: Path, gophers: Gophers, *pods: PodRequest, interval_s: float = 1000, **settings: Any
) -> AsyncIterator[tuple[Bench, Release]]:
    """A manager with PodResources that knows ``pods``, and the plugin."""
    async with bench(root, **settings) as b:
        known = Pods(OTHERS, *pods)
        async with (
            serve_pod_resources(b.paths.pod_resources_socket, b.manager.pod_resources(), known, clock=b.clock),
            served(gophers, root, interval_s) as server,
        ):
            await b.counts(len(gophers.names), len(gophers.names))
            assert server.release is not None
            yield b, server.release


def owners(release: Release) -> list[tuple[Owner, ...]]:
    return [use.owners for use in release.ledger.uses()]


async def test_owner_is_unknown_at_allocate_and_exact_from_the_start_on(sockets: Path) -> None:
    gophers = Stopping("a", "b")
    async with run(sockets, gophers, pod("p"), pod("q")) as (b, release):
        await b.admit(pod("p"))
        assert owners(release) == [()]
        await b.prepare("p")
        assert owners(release) == [(NAMELESS,)]
        await b.release("p")
        await b.admit(pod("q", gopher=2))  # looks at the checkpoint, for a
        assert gophers.told == ["post_stop a", "release a"]
        assert gophers.released[0].owners == (NAMELESS,)


async def test_app_container_is_the_owner_after_its_init_container(sockets: Path) -> None:
    gophers = Stopping("a")
    async with run(sockets, gophers, with_init("p")) as (b, release):
        await b.admit(with_init("p"))
        await b.prepare("p", "init")
        await b.prepare("p", "app")
        [[owner]] = owners(release)
        assert (owner.namespace, owner.pod, owner.container, owner.uid) == ("default", "p", "app", "p")


async def test_start_during_an_allocate_is_told_its_owner_by_the_next_look(
    sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "QUIET_S", 0.05)
    gophers = Stopping("a", "b")
    async with run(sockets, gophers, pod("p")) as (b, release):
        await b.admit(pod("p"))
        with release.context.shared.quiet.allocating():  # PodResources is not asked in the middle of one
            await b.prepare("p")
            assert owners(release) == [()]
        await until_said(lambda: owners(release) == [(OWNER,)])


async def test_plugin_that_hears_of_no_starts_learns_the_owner_by_looking(sockets: Path) -> None:
    gophers = Gophers("a")
    async with run(sockets, gophers, pod("p"), interval_s=0.2) as (b, release):
        await b.admit(pod("p"))
        await b.prepare("p")
        await until_said(lambda: owners(release) == [(OWNER,)])
        await b.release("p")
        await gophers.until_told("release a")
    assert [each.owners for each in gophers.released] == [(OWNER,)]


async def test_owner_is_known_where_the_kubelet_calls_too(sockets: Path) -> None:
    gophers = Stopping("a")
    async with run(sockets, gophers, pod("p"), gates=ON) as (b, _):
        await b.admit(pod("p"))
        await b.prepare("p")
        await b.release("p")
        await gophers.until_told("post_stop a", "release a")
    assert [(each.owners, each.origin) for each in gophers.released] == [((NAMELESS,), Origin.KUBELET)]


async def test_next_pods_owner_is_not_the_one_before(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no start waits until the Allocate of its own pod is surely stored: that it comes shows that it is."""
    monkeypatch.setattr(quiet, "STORED_S", 1000.0)
    gophers = Stopping("a")
    async with run(sockets, gophers, pod("p"), pod("q")) as (b, release):
        for uid in ("p", "q"):
            await b.admit(pod(uid))
            assert owners(release) == [()]
            await b.prepare(uid)
            [[owner]] = owners(release)
            assert owner.pod == uid
            await b.release(uid)
        async with asyncio.timeout(DEADLINE_S):
            await b.admit(pod("r"))
    released: list[Assignment] = gophers.released
    assert [each.owners[0].pod for each in released] == ["p", "q"]
