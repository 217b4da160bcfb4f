"""The kubelet's calls to a plugin, over real sockets, and what its author may say to them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from plugbay import ContainerEdits, Device, Mount, Replicas, unhealthy
from plugbay.allocation import policies
from plugbay.errors import RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import PluginOptions
from plugbay.testing.fake_kubelet import fake_kubelet
from tests.contract.bench_serving import Things, ids, paths, serving

__all__ = ["paths"]


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
    assert "a call failed" not in caplog.messages


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


async def test_author_errors_reach_the_kubelet_as_text(paths: KubeletPaths) -> None:
    class Broken(Things):
        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            raise RuntimeError("the card is on fire")

    async with fake_kubelet(paths) as kubelet, serving(Broken("a"), paths.root):
        with pytest.raises(RpcFailed) as caught:
            await (await kubelet.next_registration()).client.allocate(ids("a"))
    assert (caught.value.code, caught.value.detail) == ("Unknown", "RuntimeError: the card is on fire")


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
    [("gone", '"gone" is not in the list any more'), ("sick", '"sick" is Unhealthy \\(Hot: 95 C\\)')],
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
