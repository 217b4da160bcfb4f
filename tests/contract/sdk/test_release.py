"""An author's `post_stop` and `release`, called by our manager over real sockets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from plugbay import Assignment, CannotRelease, Device, Origin, Replicas
from plugbay.errors import RpcFailed
from plugbay.manager.config import ReleaseLimits
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import PodUid
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.model.requests import ContainerKind
from plugbay.ops.backoff import OPERATIONS
from plugbay.ops.tasks import background
from plugbay.sdk.author.plugin import options_of
from plugbay.sdk.author.release_settings import ReleasePolicy, ReleaseSource
from plugbay.sdk.process import runner
from plugbay.sdk.release.evidence import readings
from plugbay.sdk.release.hooks import ReleaseHooks, assignment_of
from plugbay.wire.plugin_client import PluginClient
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, Bench, bench, container, pod
from tests.contract.rigs.release import gated
from tests.contract.rigs.sdk_release import Blocked, Cleaning, CleaningAsync, Plain, run_pod
from tests.contract.rigs.serving import ids, serving
from tests.contract.sdk.test_serve_release import put_a_directory


@pytest.mark.parametrize("kind", [Cleaning, CleaningAsync])
async def test_hooks_are_called_once_and_in_order(sockets: Path, kind: type[Plain]) -> None:
    gopher = kind("a", "b")
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(2, 2)
        await run_pod(b)
        await b.counts(2, 2)
    assert gopher.told == ["post_stop a", "release a"]
    assert gopher.origins == [Origin.KUBELET] * 2
    assert len(set(gopher.keys)) == 2


async def test_plugin_that_failed_and_is_started_again_keeps_what_is_in_use(sockets: Path) -> None:
    class FailsOnce(Cleaning):
        release_policy = ReleasePolicy.STRICT
        starts = 0

        def set_up(self) -> None:
            self.starts += 1

        @property
        def every(self) -> float | None:  # type: ignore[override]  # breaks outside of what discover() may raise
            if self.starts == 1:
                raise RuntimeError("broken to the bone")
            return None

    gopher = FailsOnce("a")
    async with gated(sockets) as b, runner.serving([gopher], paths=b.paths):
        await b.counts(1, 1)
        assert gopher.starts == 2
        await run_pod(b)
    assert gopher.told == ["post_stop a", "release a"]


async def test_calls_decide_where_the_checkpoint_tells_nothing(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app container takes over what its init container had: the end of one use, and not of two."""
    monkeypatch.setattr(readings, "DEADLINE_S", 0.2)
    gopher = Blocked("a")
    gopher.open.set()
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        put_a_directory(b.paths.checkpoint)
        await b.admit(pod("p", container("init", ContainerKind.INIT, gopher=1), container("app", gopher=1)))
        await b.release("p")
        await b.manager.until_deallocated(PodUid("p"))
        assert gopher.told == ["release a"]


async def test_nothing_is_called_with_the_gate_off(sockets: Path) -> None:
    gopher = Cleaning("a")
    async with bench(sockets) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        await run_pod(b)
        await b.counts(1, 1)
    assert gopher.told == []


def test_only_what_the_author_wrote_is_asked_for() -> None:
    assert options_of(Plain()) == PluginOptions()
    assert options_of(Cleaning()) == PluginOptions(
        pre_start_required=True, post_stop_required=True, deallocate_required=True
    )
    assert options_of(Blocked()) == PluginOptions(deallocate_required=True)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        pytest.param(source, wanted, id=source.value)
        for source, wanted in {
            ReleaseSource.AUTO: PluginOptions(
                pre_start_required=True, post_stop_required=True, deallocate_required=True
            ),
            ReleaseSource.KUBELET: PluginOptions(post_stop_required=True, deallocate_required=True),
            ReleaseSource.SYNTHESISED: PluginOptions(pre_start_required=True),
            ReleaseSource.OFF: PluginOptions(),
        }.items()
    ],
)
def test_source_decides_what_is_asked_for(source: ReleaseSource, wanted: PluginOptions) -> None:
    assert options_of(Cleaning(), source) == wanted


async def test_hook_that_fails_is_called_again(sockets: Path) -> None:
    class Clumsy(Plain):
        def release(self, assignment: Assignment) -> None:
            self.note("release", assignment)
            if len(self.told) == 1:
                raise OSError("the device is busy")

    gopher = Clumsy("a")
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        await run_pod(b)
        notice = await anext(b.manager.release_notices())
        assert "OSError: the device is busy" in notice.message
        await b.clock.sleep_through(0.5)
        await b.counts(1, 1)
    assert len(gopher.told) == 2
    assert len(set(gopher.keys)) == 1


async def test_hook_that_can_never_succeed_is_not_called_again(sockets: Path) -> None:
    class Hopeless(Plain):
        def release(self, assignment: Assignment) -> None:
            self.note("release", assignment)
            raise CannotRelease("there is no such register")

    gopher = Hopeless("a")
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        await run_pod(b)
        await b.counts(1, 1)
        notice = await anext(b.manager.release_notices())
        assert "code = FailedPrecondition desc = there is no such register" in notice.message
    assert len(gopher.told) == 1


async def test_repeat_of_a_slow_release_waits_for_it_instead_of_starting_another(sockets: Path) -> None:
    gopher = Blocked("a")
    failed = asyncio.Semaphore(0)
    async with gated(sockets, release=ReleaseLimits(attempt_timeout_s=0.2)) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        await b.manager.admit(pod("p"))
        async with background(pass_delays(b, failed.release), name="time passes"):
            await b.release("p")
            await gopher.until_entered()
            while not failed.locked():  # attempts that had not come so far, on a busy machine
                await failed.acquire()
            async with asyncio.timeout(DEADLINE_S):
                for _ in range(2):  # the second one has joined, and was in vain as well
                    await failed.acquire()
            gopher.open.set()
            await b.counts(1, 1)
    assert len(gopher.told) == 1


async def pass_delays(b: Bench, failed: Callable[[], None]) -> NoReturn:
    """Let the time after each failed attempt pass."""
    for attempts in itertools.count(1):
        await b.clock.sleep_through(OPERATIONS.after(attempts))
        failed()
    raise AssertionError("there is always one more")


async def test_devices_behind_replicas_and_devices_that_are_gone(sockets: Path) -> None:
    gopher = Cleaning()
    gopher.devices = [Device("a", sharing=Replicas(2))]
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(2, 2)
        await b.manager.admit(pod("p", gopher=2))
        gopher.devices = [Device("z")]
        gopher.refresh()
        await b.counts(1, 1)
        gopher.devices = [Device("a", sharing=Replicas(2))]
        gopher.refresh()
        await b.counts(2, 2)
        await b.release("p")
        await b.manager.until_deallocated(PodUid("p"))
    assert gopher.told == ["release a"]


async def test_release_of_a_device_that_is_gone(sockets: Path) -> None:
    gopher = Cleaning("a", "b")
    async with gated(sockets) as b, serving(gopher, sockets):
        await b.counts(2, 2)
        await b.manager.admit(pod("p"))
        gopher.devices = [Device("b")]
        gopher.refresh()
        await b.counts(1, 1)
        await b.release("p")
        await b.manager.until_deallocated(PodUid("p"))
        assert gopher.told == ["release a"]


async def test_plugin_without_hooks_answers_as_one_that_does_not_know_the_calls(sockets: Path) -> None:
    async with bench(sockets) as b, serving(Plain("a"), sockets):
        await b.counts(1, 1)
        [socket] = (sockets / "device-plugins").glob("example*.sock")
        client = PluginClient(socket)
        for call in (
            client.deallocate(ids("a"), OperationId("1"), ReleaseReason.POD_ENDED),
            client.post_stop_container(ids("a"), OperationId("2")),
        ):
            with pytest.raises(RpcFailed, match="Unimplemented"):
                await call
        await client.close()


async def test_operations_without_an_id_are_all_different(sockets: Path) -> None:
    gopher = Cleaning("a")
    async with bench(sockets) as b, serving(gopher, sockets):
        await b.counts(1, 1)
        [socket] = (sockets / "device-plugins").glob("example*.sock")
        client = PluginClient(socket)
        for _ in range(2):
            await client.deallocate(ids("a"), OperationId(""), ReleaseReason.POD_ENDED)
        for _ in range(2):
            await client.deallocate(ids("a"), OperationId("same"), ReleaseReason.POD_ENDED)
        await client.close()
    assert len(gopher.told) == 3
    assert len(set(gopher.keys)) == 3


async def test_hooks_need_a_plugin_that_serves() -> None:
    assignment = assignment_of(OperationId("1"), GOPHER, devices=ids("a"), units=ids("a"))
    with pytest.raises(RpcFailed, match="does not serve"):
        await ReleaseHooks().once(OperationId("1"), Cleaning().release, assignment)
