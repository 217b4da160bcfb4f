"""How devices are found while a plugin is served: every way to learn of a change, and what is logged of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin, PartialAllocationError, Replicas, plugin, unhealthy
from plugbay.errors import InvalidWatch, RpcFailed
from plugbay.kernel import uevent
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.discovery import discovery
from plugbay.sdk.discovery.reasons import QUIET_S
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.logs import Log, log

__all__ = ["log"]

NAME = "example.com/thing"
DEADLINE_S = 20
NULL = Path("/sys/class/mem/null/uevent")
needs_uevents = pytest.mark.skipif(not os.access(NULL, os.W_OK), reason="only root may have the kernel send uevents")


class Things(DevicePlugin):
    resource_name = NAME

    def __init__(self, *names: str) -> None:
        self.devices = [Device(name) for name in names]
        self.looks = 0

    def discover(self) -> Iterable[Device]:
        self.looks += 1
        return self.devices


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@asynccontextmanager
async def served(made: DevicePlugin, paths: KubeletPaths) -> AsyncIterator[tuple[RegisteredPlugin, Callable[[], None]]]:
    """The plugin as the kubelet has it, and what SIGHUP does."""
    async with fake_kubelet(paths) as kubelet, serving([made], paths=paths) as reload:
        yield await kubelet.next_registration(), reload


# --- what changed, and why ------------------------------------------------------------------------------------------


async def test_each_difference_is_logged_once_with_what_changed_and_why(paths: KubeletPaths, log: Log) -> None:
    things = Things("a", "b")
    async with served(things, paths) as (kubelet, reload):
        await kubelet.until_devices("a", "b")
        await log.seen_once(*(f"{NAME}: new device {each}, Healthy; why: first look" for each in "ab"))
        things.devices = [
            Device("a", numa_nodes=[1], env={"X": "1"}, attributes={"model": "A2"}, sharing=Replicas(2)),
            Device("c", health=unhealthy("Hot", "95 C")),
        ]
        things.refresh()
        await kubelet.until_devices("a::0", "a::1", "c")
        await log.seen_once(
            f"{NAME}: device b is gone; why: refresh()",
            f"{NAME}: new device c, Unhealthy (Hot: 95 C); why: refresh()",
            f"{NAME}: device a changed: numa_nodes: nothing → 1, attributes model: nothing → A2, "
            "sharing: one container → 2 replicas, env X: nothing → 1; why: refresh()",
        )
        things.devices = [Device("a"), Device("c")]
        reload()
        await log.seen_once(f"{NAME}: device c is Healthy; why: SIGHUP")


async def test_interval_finds_changes(paths: KubeletPaths, log: Log) -> None:
    things = Things("a")
    things.every = 0.01
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        things.devices = [Device("b")]
        await kubelet.until_devices("b")
        await log.seen_once(f"{NAME}: new device b, Healthy; why: interval")


async def test_watched_paths_tell(paths: KubeletPaths, log: Log, tmp_path: Path) -> None:
    root = tmp_path / "bus"

    @plugin(NAME, watch=root)
    def things(root: Path) -> Iterator[Device]:
        yield from (Device(entry.name) for entry in root.iterdir())

    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices()
        root.mkdir()
        (root / "a").touch()
        await kubelet.until_devices("a")
        await log.seen_once(f"{NAME}: new device a, Healthy; why: watch of {root}")


async def test_burst_of_changes_makes_few_looks(paths: KubeletPaths, tmp_path: Path) -> None:
    class Entries(Things):
        watch = tmp_path

        def discover(self) -> Iterable[Device]:
            self.looks += 1
            return [Device(entry.name) for entry in tmp_path.iterdir()]

    entries, names = Entries(), [f"d{number:03}" for number in range(300)]
    async with served(entries, paths) as (kubelet, _):
        await kubelet.until_devices()
        began = asyncio.get_running_loop().time()
        for name in names:
            (tmp_path / name).touch()
            await asyncio.sleep(0)
        await kubelet.until_devices(*names)
        lasted_s = asyncio.get_running_loop().time() - began
    assert entries.looks <= 2 + lasted_s / QUIET_S, "not one for each"


# --- uevents --------------------------------------------------------------------------------------------------------


@needs_uevents
async def test_uevents_tell(paths: KubeletPaths, log: Log) -> None:
    things = Things("a")
    things.watch_uevents = ({"SUBSYSTEM": "tty"}, {"SUBSYSTEM": "mem", "DEVNAME": "nul*"})
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        things.devices = [Device("b")]
        NULL.write_text("change")
        await kubelet.until_devices("b")
        await log.seen_once(f"{NAME}: new device b, Healthy; why: uevent change /devices/virtual/mem/null")


@needs_uevents
async def test_uevents_of_others_do_not_matter(paths: KubeletPaths) -> None:
    things = Things("a")
    things.watch_uevents = {"SUBSYSTEM": "mem", "DEVNAME": "zero"}
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        NULL.write_text("change")
        Path("/sys/class/mem/zero/uevent").write_text("change")
        things.devices = [Device("b")]
        await kubelet.until_devices("b")
        assert things.looks == 2


async def test_lost_uevents_mean_a_look(paths: KubeletPaths, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    events: asyncio.Queue[uevent.UeventsLost] = asyncio.Queue()
    monkeypatch.setattr(uevent.Uevents, "__anext__", lambda _: events.get())
    things = Things("a")
    things.watch_uevents = {"SUBSYSTEM": "tty"}
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        things.devices = [Device("b")]
        events.put_nowait(uevent.UeventsLost())
        await kubelet.until_devices("b")
        await log.seen_once(f"{NAME}: new device b, Healthy; why: uevents that were lost")


async def test_machine_without_uevents_is_looked_at_now_and_then(
    paths: KubeletPaths, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uevent, "_NETLINK_KOBJECT_UEVENT", 31)  # no such protocol
    monkeypatch.setattr(discovery, "BLIND_EVERY_S", 0.01)
    things = Things("a")
    things.watch_uevents = {"SUBSYSTEM": "tty"}
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        things.devices = [Device("b")]
        await kubelet.until_devices("b")
    assert [line for line in log.lines if "cannot receive uevents, looking at intervals instead" in line]


@pytest.mark.parametrize("wrong", [{}, "tty", [{}], {"MAJOR": 4}], ids=repr)
async def test_uevents_that_cannot_be_watched_are_refused(paths: KubeletPaths, wrong: object) -> None:
    things = Things("a")
    things.watch_uevents = wrong  # type: ignore[assignment]  # what an author may write
    if wrong == {}:
        wrong = things.watch_uevents = ({},)
    with pytest.raises(InvalidWatch, match=f"{NAME}: watch_uevents: "):
        async with serving([things], paths=paths):
            pass


# --- generators that go on ------------------------------------------------------------------------------------------


class Stream(DevicePlugin):
    """Gives the lists that a test puts into ``lists``, and raises or ends when it says so."""

    resource_name = NAME

    def __init__(self) -> None:
        self.lists: asyncio.Queue[list[str] | Exception | None] = asyncio.Queue()
        self.starts = 0
        self.started_twice = asyncio.Event()
        self.closed = 0

    async def discover(self) -> AsyncIterator[Iterable[Device]]:
        self.starts += 1
        if self.starts == 2:
            self.started_twice.set()
        try:
            while (names := await self.lists.get()) is not None:
                if isinstance(names, Exception):
                    raise names
                yield (Device(name) for name in names)
        finally:
            self.closed += 1


async def test_generator_gives_one_list_after_the_other(paths: KubeletPaths, log: Log) -> None:
    stream = Stream()
    stream.lists.put_nowait(["a"])
    async with served(stream, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        stream.lists.put_nowait(["a", "b"])
        await kubelet.until_devices("a", "b")
        await log.seen_once(f"{NAME}: new device b, Healthy; why: discover() says so")
        stream.lists.put_nowait([])
        await kubelet.until_devices()
        assert (stream.starts, stream.closed) == (1, 0)
    assert stream.closed == 1


async def test_watch_of_a_file_system_that_tells_of_nothing_is_a_warning(paths: KubeletPaths, log: Log) -> None:
    silent, timed = Things("a"), Things("b")
    silent.watch = timed.watch = ["/sys/class/none", "/etc"]
    timed.resource_name, timed.every = "example.com/timed", 3600
    async with served(silent, paths), served(timed, paths):
        sentence = "watch of /sys/class/none: a file system of type sysfs does not report changes"
        await log.seen(f"{NAME}: {sentence}; set `every` or `watch_uevents`")
    assert len([line for line in log.lines if "does not report changes" in line]) == 1


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (None, "discover() returned, but a generator of lists must keep running until it is closed"),
        (OSError("the bus is gone"), "OSError: the bus is gone"),
    ],
    ids=["ends", "raises"],
)
async def test_generator_that_ends_is_started_again_and_devices_stay(
    paths: KubeletPaths, log: Log, end: Exception | None, sentence: str
) -> None:
    stream = Stream()
    stream.lists.put_nowait(["a"])
    async with served(stream, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        stream.lists.put_nowait(end)
        told = f"{NAME}: looking for devices failed, the list stays as it was: {sentence}"
        await log.seen(told)
        assert len([line for line in log.lines if line.startswith(told)]) == 1
        assert list(kubelet.devices) == ["a"]
        await kubelet.client.allocate([DeviceId("a")])
        stream.lists.put_nowait(["a", "b"])
        await kubelet.until_devices("a", "b")
        assert stream.starts == 2


async def test_generator_that_gives_something_else_is_one_sentence(paths: KubeletPaths, log: Log) -> None:
    class Odd(Things):
        async def discover(self) -> AsyncIterator[object]:  # type: ignore[override]  # what an author may write
            yield [Device("a")]
            yield "b"

    async with served(Odd(), paths) as (kubelet, _):
        await kubelet.until_devices("a")
        await log.seen(
            f"{NAME}: looking for devices failed, the list stays as it was: "
            "device 'b': discover() has to go on with lists, as it began (test_discovery.py:"
        )


async def test_refresh_starts_a_generator_anew(paths: KubeletPaths) -> None:
    stream = Stream()
    stream.lists.put_nowait(["a"])
    async with served(stream, paths) as (kubelet, _):
        await kubelet.until_devices("a")
        stream.refresh()
        async with asyncio.timeout(DEADLINE_S):
            await stream.started_twice.wait()
        stream.lists.put_nowait(["b"])
        await kubelet.until_devices("b")
    assert (stream.starts, stream.closed) == (2, 2)


async def test_generator_of_devices_makes_one_list(paths: KubeletPaths) -> None:
    class Single(Things):
        async def discover(self) -> AsyncIterator[Device]:  # type: ignore[override]  # one of the ways that there are
            for device in self.devices:
                yield device

    things = Single("a", "b")
    async with served(things, paths) as (kubelet, _):
        await kubelet.until_devices("a", "b")
        things.devices = []
        things.refresh()
        await kubelet.until_devices()


# --- devices that could not be given --------------------------------------------------------------------------------


async def test_devices_that_could_not_be_given_are_looked_at_again_unasked(
    paths: KubeletPaths, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "FIRST_RECHECK_S", 0.05)

    class Failing(Things):
        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            raise PartialAllocationError(failed=["a"], problem="stuck")

    async with served(Failing("a", "b"), paths) as (kubelet, _):
        await kubelet.until_devices("a", "b")
        with pytest.raises(RpcFailed, match="stuck"):
            await kubelet.client.allocate([DeviceId("a"), DeviceId("b")])
        await log.seen_once(
            f"{NAME}: device a is Unhealthy (AllocationFailed: stuck); why: allocate()",
            f"{NAME}: device a is Healthy; why: devices that could not be given",
        )
