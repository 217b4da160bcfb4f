"""Who says that a use is over: the kubelet that promises calls, or its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from plugbay import Device, Origin
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import PodUid
from plugbay.sdk.author.release_settings import ReleaseSource
from plugbay.sdk.release.report import release_status
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import device_plugin_handler
from tests.contract.rigs.manager import GOPHER, bench, pod
from tests.contract.rigs.release import BOTH, ON, WITHOUT, gated
from tests.contract.rigs.sdk_release import Cleaning, run_pod
from tests.contract.rigs.stock_release import served


async def test_kubelet_that_promises_calls_is_left_to_make_them(sockets: Path) -> None:
    """With the gate on nothing is synthesised, however often looks would be made, from the first container on."""
    gopher = Cleaning("a")
    async with gated(sockets) as b, served(gopher, sockets, interval_s=0.01) as server:
        await b.counts(1, 1)
        release = server.release
        assert release is not None
        assert not release.evidence.synthesises
        await b.manager.admit(pod("first"))
        await b.prepare("first")
        [status] = cast("list[dict[str, str]]", release_status(release, str)["open"])
        assert status["waitsFor"] == "the kubelet to call Deallocate"
        await b.release("first")
        await b.manager.until_deallocated(PodUid("first"))
        told = tuple(gopher.told)  # PostStopContainer depends on whether the manager knows of the container's end
        for uid in ("second", "third"):
            await run_pod(b, uid)
    assert gopher.told == [*told, *["post_stop a", "release a"] * 2]
    assert set(gopher.origins) == {Origin.KUBELET}
    assert release.evidence.outcomes["ok"] == 0


async def test_restarted_plugin_leaves_it_to_the_kubelet_too(sockets: Path) -> None:
    """What ended while it was away is told as soon as it is back."""
    gopher = Cleaning("a")
    async with gated(sockets) as b:
        async with served(gopher, sockets, interval_s=0.01):
            await b.counts(1, 1)
            await b.manager.admit(pod("p"))
        await b.counts(1, 0)
        await b.release("p")
        async with served(gopher, sockets, interval_s=0.01):
            await b.until(lambda: not b.manager.releases.pending())
    assert (gopher.told, gopher.origins) == (["release a"], [Origin.KUBELET])


@pytest.mark.parametrize(
    ("gate", "options", "is_promised"),
    [
        pytest.param(ON, BOTH, True, id="on-and-asked-for"),
        pytest.param(ON, PluginOptions(deallocate_required=True), True, id="one-of-the-calls"),
        pytest.param(ON, WITHOUT, False, id="not-asked-for"),
        pytest.param(DEFAULT_GATES, BOTH, False, id="off"),
    ],
)
async def test_calls_are_promised_to_who_will_get_them(
    sockets: Path, gate: FeatureGates, options: PluginOptions, is_promised: bool
) -> None:
    promises: list[bool] = []
    async with bench(sockets, gates=gate) as b:
        fake = FakePlugin(GOPHER, b.at("gopher.sock"), [Device("a")], options=options)
        async with serve_grpc(
            fake.socket, [device_plugin_handler(fake, lambda caller: promises.append(caller.will_call))]
        ):
            await fake.register(b.paths.registration_socket)
            await b.counts(1, 1)
    assert promises == [is_promised]


async def test_gate_turned_off_makes_checkpoints_count(sockets: Path) -> None:
    gopher = Cleaning("a")
    async with served(gopher, sockets, interval_s=1000) as server:
        assert server.release is not None
        async with gated(sockets) as b:
            await b.counts(1, 1)
            assert not server.release.evidence.synthesises
        async with bench(sockets) as b:
            await b.counts(1, 1)
            assert server.release.evidence.synthesises


@pytest.mark.parametrize("source", [ReleaseSource.SYNTHESISED, ReleaseSource.OFF])
async def test_who_wants_no_calls_gets_none(sockets: Path, source: ReleaseSource) -> None:
    gopher = Cleaning("a")
    async with gated(sockets) as b, served(gopher, sockets, interval_s=0.02, source=source) as server:
        await b.counts(1, 1)
        await b.manager.admit(pod("p"))
        await b.release("p")
        if server.release is None:
            await b.manager.admit(pod("q"))
            assert gopher.told == []
            return
        assert server.release.evidence.synthesises
        await b.manager.admit(pod("q"))
    assert (gopher.told, gopher.origins) == (["release a"], [Origin.SYNTHESISED])
