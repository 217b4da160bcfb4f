"""The kubelet's calls to a plugin, over real sockets, and what its author may say to them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Sequence

import pytest

from plugbay import AllocationError, ContainerEdits, Device, Mount, Replicas, merge_devices, unhealthy
from plugbay.allocation import policies
from plugbay.errors import RpcCode, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import PluginOptions
from plugbay.sdk.hooks import blocking
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.rigs.logs import Log, log
from tests.contract.rigs.serving import DEADLINE_S, NAME, Things, ids, paths, serving

__all__ = ["log", "paths"]


async def test_no_hook_no_option(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        assert await (await kubelet.next_registration()).client.options() == PluginOptions()


async def test_hooks_that_are_not_offered_and_called_nevertheless(
    paths: KubeletPaths, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Things("a"), paths.root):
        client = (await kubelet.next_registration()).client
        with pytest.raises(RpcFailed, match="Unimplemented desc = method GetPreferredAllocation not implemented"):
            await client.preferred_allocation(ids("a"), [], 1)
        with pytest.raises(RpcFailed, match="Unimplemented desc = method PreStartContainer not implemented"):
            await client.pre_start_container(ids("a"))
    assert "failed unexpectedly" not in caplog.text


async def test_overridden_hooks_are_offered_and_called(paths: KubeletPaths) -> None:
    started: list[list[str]] = []

    class Eager(Things):
        async def preferred_allocation(
            self, available: Sequence[Device], must_include: Sequence[Device], size: int
        ) -> Sequence[Device]:
            return list(reversed(available))[:size]

        def pre_start_container(self, devices: Sequence[Device]) -> None:
            started.append([device.id for device in devices])

    async with fake_kubelet(paths) as kubelet, serving(Eager("a", "b", "c"), paths.root):
        client = (await kubelet.next_registration()).client
        assert await client.options() == PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        assert await client.preferred_allocation(ids("a", "b", "c"), [], 2) == ("c", "b")
        await client.pre_start_container(ids("b", "a"))
        assert started == [["a", "b"]]
        with pytest.raises(RpcFailed, match=r"a choice without all the devices that must be included"):
            await client.preferred_allocation(ids("a", "b", "c"), ids("a"), 1)


HERE = r"\(test_calls\.py:\d+\)"


class Broken(Things):
    """Every hook does what its author did not mean to do."""

    async def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device]:
        return ["a"]  # type: ignore[list-item]  # as authors without a type checker do

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        match [device.id for device in devices]:
            case ["a"]:
                return {"x": 1}["y"]  # type: ignore[return-value]
            case ["b"]:
                return None  # type: ignore[return-value]
            case ["c"]:
                raise AllocationError("it is being updated")
            case _:
                return merge_devices([ContainerEdits({"A": "1"}), ContainerEdits({"A": "2"})], join_env=None)

    async def pre_start_container(self, devices: Sequence[Device]) -> None:
        json.loads("{")


@pytest.mark.parametrize(
    ("devices", "level", "sentence"),
    [
        ("a", "ERROR", rf"allocate\(a\) failed: KeyError: 'y' {HERE}"),
        ("b", "ERROR", rf"allocate\(b\) gave None instead of ContainerEdits {HERE}"),
        ("c", "WARNING", r"allocate\(c\) refused: it is being updated"),
        ("ab", "ERROR", rf"allocate\(a, b\) failed: two devices disagree about environment variable 'A'.* {HERE}"),
    ],
)
async def test_allocate_that_fails_is_a_line_of_the_plugins_log_too(
    paths: KubeletPaths, caplog: pytest.LogCaptureFixture, devices: str, level: str, sentence: str
) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Broken("a", "b", "c"), paths.root):
        client = (await kubelet.next_registration()).client
        for _ in range(3):  # kubelets ask again
            with pytest.raises(RpcFailed) as caught:
                await client.allocate(ids(*devices))
    [record] = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert record.levelname == level
    assert re.fullmatch(f"example.com/thing: {sentence}", record.getMessage())
    assert record.exc_info is None
    assert caught.value.code is RpcCode.UNKNOWN
    assert record.getMessage().endswith(caught.value.detail)


async def test_other_hooks_that_fail_are_a_line_each(paths: KubeletPaths, caplog: pytest.LogCaptureFixture) -> None:
    async with fake_kubelet(paths) as kubelet, serving(Broken("a", "b"), paths.root):
        client = (await kubelet.next_registration()).client
        for _ in range(2):
            with pytest.raises(RpcFailed):
                await client.pre_start_container(ids("a"))
            with pytest.raises(RpcFailed):
                await client.preferred_allocation(ids("a", "b"), [], 1)
    started, preferred = [record for record in caplog.records if record.levelname == "ERROR"]
    assert re.search(rf"pre_start_container\(a\) failed: JSONDecodeError: .* {HERE}$", started.getMessage())
    wanted = rf"preferred_allocation\(a, b\) gave \['a'\] instead of devices {HERE}$"
    assert re.search(wanted, preferred.getMessage())


async def test_default_allocate_tells_the_log_of_devices_that_do_not_go_together(
    paths: KubeletPaths, caplog: pytest.LogCaptureFixture
) -> None:
    things = Things()
    things.devices = [Device(name, mounts=[Mount(f"/opt/{name}", container_path="/lib/x")]) for name in "ab"]
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        with pytest.raises(RpcFailed):
            await (await kubelet.next_registration()).client.allocate(ids("a", "b"))
    assert "example.com/thing: allocate(a, b) failed: two devices disagree about mount '/lib/x'" in caplog.text


async def test_a_hook_that_keeps_the_event_loop_from_running_is_named(
    paths: KubeletPaths, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "TOO_LONG_S", 0.05)
    told = threading.Event()
    log.on(f"{NAME}: allocate() keeps the event loop from running (test_calls.py:", told.set)

    class Blocking(Things):
        async def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            await asyncio.sleep(0)
            told.wait(DEADLINE_S)
            return ContainerEdits()

    async with fake_kubelet(paths) as kubelet, serving(Blocking("a"), paths.root):
        client = (await kubelet.next_registration()).client
        await client.allocate(ids("a"))
        assert told.is_set()
        await client.allocate(ids("a"))
    assert len([line for line in log.lines if "keeps the event loop" in line]) == 1


async def test_conflicting_devices_are_refused(paths: KubeletPaths) -> None:
    things = Things()
    things.devices = [Device(name, mounts=[Mount(f"/opt/{name}", container_path="/lib/x")]) for name in "ab"]
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        client = (await kubelet.next_registration()).client
        with pytest.raises(RpcFailed, match=r"two devices disagree about mount '/lib/x'"):
            await client.allocate(ids("a", "b"))
        assert await client.allocate(ids("b")) is not None


@pytest.mark.parametrize(
    ("asked", "text"),
    [("gone", '"gone" is no longer in the list'), ("sick", '"sick" is Unhealthy \\(Hot: 95 C\\)')],
)
async def test_device_that_cannot_be_given_is_refused(paths: KubeletPaths, asked: str, text: str) -> None:
    things = Things()
    things.devices = [Device("sick", health=unhealthy("Hot", "95 C"))]
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        with pytest.raises(RpcFailed, match=text):
            await (await kubelet.next_registration()).client.allocate(ids(asked))


async def test_replicas_are_given_one_by_one_and_seen_as_their_device(paths: KubeletPaths) -> None:
    seen: dict[str, list[str]] = {}

    class Shared(Things):
        preferred_allocation = policies.fewest_physical

        def pre_start_container(self, devices: Sequence[Device]) -> None:
            seen["started"] = [device.id for device in devices]

    things = Shared()
    things.devices = [Device(name, sharing=Replicas(2), env={"THINGS": name}) for name in ("a", "b")]
    async with fake_kubelet(paths) as kubelet, serving(things, paths.root):
        connection = await kubelet.next_registration()
        await connection.until_devices("a::0", "a::1", "b::0", "b::1")
        client = connection.client
        assert await client.preferred_allocation(ids("a::1", "b::0", "b::1"), [], 2) == ("b::0", "b::1")
        answer = await client.allocate(ids("b::1", "a::0", "b::0"))
        assert answer is not None
        assert answer.edits.env == {"THINGS": "a,b"}, "a container that has two replicas has one device"
        await client.pre_start_container(ids("b::1", "b::0"))
        assert seen == {"started": ["b"]}
        things.devices = [Device("a", sharing=Replicas(2), health=unhealthy("Hot"))]
        things.refresh()
        await connection.until_devices("a::0", "a::1")
        assert not any(device.is_healthy for device in connection.devices.values())
        with pytest.raises(RpcFailed, match=r'device "a" is Unhealthy'):
            await client.allocate(ids("a::1"))
