"""Spec 11.6: who may use whose devices inside a pod."""

from __future__ import annotations

import asyncio
from pathlib import Path

from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from tests.contract.rigs.manager import GOPHER, Bench, bench, container, pod, rejection


def init(name: str, count: int) -> ContainerRequest:
    return container(name, ContainerKind.INIT, gopher=count)


def sidecar(name: str, count: int) -> ContainerRequest:
    return container(name, ContainerKind.SIDECAR, gopher=count)


def app(name: str, count: int) -> ContainerRequest:
    return container(name, gopher=count)


def in_use(b: Bench) -> int:
    (resource,) = b.manager.snapshot().resources
    return sum(device.holder is not None for device in resource.devices)


def pod_of_s071(uid: str) -> PodRequest:
    return pod(uid, init("one", 1), init("two", 2), app("app", 2))


async def test_s071_app_container_takes_over_what_the_init_containers_had(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.admit(pod_of_s071("p"))
        held = b.gophers_of("p")
        assert len(held["one"]) == 1
        assert held["one"] < held["two"] == held["app"] == {"a", "b"}
        assert len(plugin.allocated) == 3


async def test_s072_app_containers_share_out_what_an_init_container_had(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", "b")
        await b.admit(pod("p", init("one", 1), init("two", 2), app("x", 1), app("y", 1)))
        held = b.gophers_of("p")
        assert held["x"].isdisjoint(held["y"])
        assert held["x"] | held["y"] == held["two"]


async def test_s073_sidecars_keep_what_they_took_over(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin(*"abcdef")
        await b.admit(pod("p", init("init", 3), sidecar("s1", 1), sidecar("s2", 2), app("x", 1), app("y", 2)))
        held = b.gophers_of("p")
        assert held["s1"] | held["s2"] <= held["init"]
        live = [held[name] for name in ("s1", "s2", "x", "y")]
        assert sum(map(len, live)) == len(set.union(*live)) == 6
        assert in_use(b) == 6


async def test_s074_init_container_does_not_get_an_earlier_sidecars_device(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin("a", "b")
        await b.admit(pod("p", sidecar("side", 1), init("init", 1)))
        assert b.gophers_of("p") == {"side": {"a"}, "init": {"b"}}


async def test_s075_devices_only_an_init_container_had_stay_in_use_until_the_pod_ends(sockets: Path) -> None:
    async with bench(sockets) as b:
        await b.plugin(*"abcde")
        await b.admit(pod("p", init("init", 5), app("app", 2)))
        assert in_use(b) == 5
        assert "Requested: 1, Available: 0" in await rejection(b.manager, pod("q"))
        await b.release("p")
        assert in_use(b) == 0
        await b.admit(pod("q", gopher=5))


async def test_s076_pods_do_not_see_each_others_reuse_lists(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin(*"abcd")
        async with asyncio.TaskGroup() as tasks:
            for uid in "pq":
                tasks.create_task(b.manager.admit(pod_of_s071(uid)))
        of_p, of_q = (set.union(*b.gophers_of(uid).values()) for uid in "pq")
        assert len(of_p) == len(of_q) == 2
        assert of_p.isdisjoint(of_q)
        calls = len(plugin.allocated)
        await b.admit(pod_of_s071("p"))
        assert len(plugin.allocated) == calls
        assert GOPHER in b.held("p")["app"]
