"""An author's `post_stop` and `release`, called by our manager over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn, cast

import pytest

from plugbay import Assignment, CannotRelease, Device, DevicePlugin, Origin, Replicas
from plugbay.errors import RpcFailed
from plugbay.manager.effects import Effect
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates
from plugbay.manager.release_rules import ReleaseLimits, back_off_s
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import PodUid
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.model.requests import ContainerKind
from plugbay.ops.tasks import background
from plugbay.sdk import runner
from plugbay.sdk.plugin import options_of
from plugbay.sdk.release import readings
from plugbay.sdk.release.hooks import ReleaseHooks, assignment_of
from plugbay.sdk.release.report import release_status
from plugbay.sdk.release.settings import ReleasePolicy, ReleaseSource
from plugbay.testing.fake_plugin import FakePlugin
from plugbay.wire.plugin_client import PluginClient
from plugbay.wire.plugin_server import device_plugin_handler
from plugbay.wire.transport import serve_grpc
from tests.contract.bench_manager import DEADLINE_S, GOPHER, Bench, bench, container, pod
from tests.contract.bench_release import BOTH, ON, WITHOUT, gated
from tests.contract.test_durability import CHILD, DEVICES, Killed, ManagerProcess
from tests.contract.test_release_crashes import GATE
from tests.contract.test_release_stock import served
from tests.contract.test_sdk_serving import ids, serving
from tests.contract.test_serve_release import put_a_directory


class Plain(DevicePlugin):
    """Nothing more than devices."""

    resource_name = GOPHER

    def __init__(self, *names: str) -> None:
        self.devices: Iterable[Device] = [Device(name) for name in names]
        self.told: list[str] = []
        self.keys: list[str] = []
        self.origins: list[Origin | None] = []

    def discover(self) -> Iterable[Device]:
        return self.devices

    def note(self, what: str, assignment: Assignment) -> None:
        self.told.append(f"{what} {','.join(assignment.devices)}")
        self.keys.append(assignment.key)
        self.origins.append(assignment.origin)


class Cleaning(Plain):
    """With plain hooks, which run in threads."""

    def post_stop(self, assignment: Assignment) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.note("post_stop", assignment)

    def release(self, assignment: Assignment) -> None:
        self.note("release", assignment)


class CleaningAsync(Plain):
    async def post_stop(self, assignment: Assignment) -> None:
        self.note("post_stop", assignment)

    async def release(self, assignment: Assignment) -> None:
        self.note("release", assignment)


class Blocked(Plain):
    """Its `release` waits for the test."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.entered = threading.Event()
        self.open = threading.Event()

    def release(self, assignment: Assignment) -> None:
        self.note("release", assignment)
        self.entered.set()
        assert self.open.wait(DEADLINE_S)

    async def until_entered(self) -> None:
        assert await asyncio.to_thread(self.entered.wait, DEADLINE_S)


async def run_pod(b: Bench, uid: str = "p") -> None:
    await b.manager.admit(pod(uid))
    await b.prepare(uid)
    b.manager.container_ended(PodUid(uid), pod(uid).containers[0].name, f"{uid}-1")
    await b.release(uid)
    await b.manager.until_deallocated(PodUid(uid))


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
        await b.clock.sleep_through(back_off_s(attempts))
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


# --- who says that a use is over ------------------------------------------------------------------------------------


async def test_kubelet_that_promises_calls_is_left_to_make_them(sockets: Path) -> None:
    """With the gate on nothing is synthesised, however often looks would be made, from the first container on."""
    gopher = Cleaning("a")
    async with gated(sockets) as b, served(gopher, sockets, interval_s=0.01) as server:
        await b.counts(1, 1)
        custody = server.custody
        assert custody is not None
        assert not custody.synthesises
        await b.manager.admit(pod("first"))
        await b.prepare("first")
        [status] = cast("list[dict[str, str]]", release_status(custody, str)["open"])
        assert status["waitsFor"] == "the kubelet to call Deallocate"
        await b.release("first")
        await b.manager.until_deallocated(PodUid("first"))
        told = tuple(gopher.told)  # PostStopContainer depends on whether the manager knows of the container's end
        for uid in ("second", "third"):
            await run_pod(b, uid)
    assert gopher.told == [*told, *["post_stop a", "release a"] * 2]
    assert set(gopher.origins) == {Origin.KUBELET}
    assert custody.readings["ok"] == 0


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
        async with serve_grpc(fake.socket, [device_plugin_handler(fake, promises.append)]):
            await fake.register(b.paths.registration_socket)
            await b.counts(1, 1)
    assert promises == [is_promised]


async def test_gate_turned_off_makes_checkpoints_count(sockets: Path) -> None:
    gopher = Cleaning("a")
    async with served(gopher, sockets, interval_s=1000) as server:
        assert server.custody is not None
        async with gated(sockets) as b:
            await b.counts(1, 1)
            assert not server.custody.synthesises
        async with bench(sockets) as b:
            await b.counts(1, 1)
            assert server.custody.synthesises


@pytest.mark.parametrize("source", [ReleaseSource.SYNTHESISED, ReleaseSource.OFF])
async def test_who_wants_no_calls_gets_none(sockets: Path, source: ReleaseSource) -> None:
    gopher = Cleaning("a")
    async with gated(sockets) as b, served(gopher, sockets, interval_s=0.02, source=source) as server:
        await b.counts(1, 1)
        await b.manager.admit(pod("p"))
        await b.release("p")
        if server.custody is None:
            await b.manager.admit(pod("q"))
            assert gopher.told == []
            return
        assert server.custody.synthesises
        await b.manager.admit(pod("q"))
    assert (gopher.told, gopher.origins) == (["release a"], [Origin.SYNTHESISED])


# --- kills ----------------------------------------------------------------------------------------------------------

CLEANER = """
import pathlib, sys, time
from plugbay import Device, DevicePlugin, run

class Cleaner(DevicePlugin):
    resource_name = "example.com/gopher"

    def discover(self):
        return [Device("a")]

    def release(self, assignment):
        print(assignment.key, flush=True)
        if sys.argv[2] == "hang":
            time.sleep(1000)

run(Cleaner(), kubelet_root=sys.argv[1])
"""


@asynccontextmanager
async def cleaner(root: Path, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLEANER, str(root), how, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def key_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        return (await process.stdout.readline()).decode().strip()


async def test_plugin_is_killed_during_its_release(sockets: Path) -> None:
    async with gated(sockets) as b:
        async with cleaner(sockets, "hang") as process:
            await b.counts(1, 1)
            await b.manager.admit(pod("p"))
            await b.release("p")
            before = await key_of(process)
            process.kill()
            await b.counts(1, 0)
        async with cleaner(sockets, "work") as process:
            assert await key_of(process) == before
            await b.counts(1, 1)


@asynccontextmanager
async def bare_manager(root: Path, *fate: str) -> AsyncIterator[ManagerProcess]:
    """`crashing_manager.py` with the gate on, and no plugin."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CHILD),
        str(root),
        *fate,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"FEATURE_GATES": GATE},
    )
    manager = ManagerProcess(process)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.read())
            await manager.answer_to(0)
            yield manager
            if process.returncode is None:
                await manager.stop()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_manager_is_killed_during_the_release(sockets: Path) -> None:
    """The hook goes on; the next manager's repeat joins it."""
    gopher = Blocked(*(f"g{number}" for number in range(DEVICES)))
    async with serving(gopher, sockets):
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            await manager.ask("admit", pod="p", count=1)
            asking = asyncio.ensure_future(manager.ask("release", pod="p"))
            await gopher.until_entered()
            manager.process.kill()
            with pytest.raises(Killed):
                await asking
            assert await manager.process.wait() == -signal.SIGKILL
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            gopher.open.set()
            await manager.ask("settled")
            assert "held" in await manager.ask("admit", pod="q", count=DEVICES)
    assert gopher.told == ["release g0"]


async def test_manager_is_killed_after_the_release(sockets: Path) -> None:
    """It asks again, as it may not have heard the answer; the hook is not called again."""
    gopher = Cleaning(*(f"g{number}" for number in range(DEVICES)))
    async with serving(gopher, sockets):
        async with bare_manager(sockets, Effect.CALLED_DEALLOCATE.value, "1") as manager:
            await manager.ask("wait")
            await manager.ask("admit", pod="p", count=1)
            with pytest.raises(Killed):
                await manager.ask("release", pod="p")
            assert await manager.process.wait() == -signal.SIGKILL
        async with bare_manager(sockets) as manager:
            await manager.ask("wait")
            await manager.ask("settled")
            assert "held" in await manager.ask("admit", pod="q", count=DEVICES)
    assert gopher.told == ["release g0"]
