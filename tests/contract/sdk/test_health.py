"""Health of served devices as a kubelet sees it: checks that fail, hang, crash, and recover."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin, Health, PartialAllocationError, health, plugin, unhealthy
from plugbay.errors import CannotIsolate, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.process.runner import serving
from plugbay.sdk.process.targets import load_plugins
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.rigs.logs import Log, log

__all__ = ["log"]

NAME = "example.com/thing"
DEADLINE_S = 20
OFTEN_S = 0.01


class Things(DevicePlugin):
    """A plugin whose devices and verdicts a test sets."""

    resource_name = NAME

    def __init__(self, *names: str) -> None:
        self.devices = [Device(name) for name in names]
        self.verdicts: dict[str, Any] = {}

    def discover(self) -> Iterable[Device]:
        return self.devices

    def verdict(self, device: Device) -> Any:
        verdict = self.verdicts.get(device.id, True)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@asynccontextmanager
async def served(made: DevicePlugin, paths: KubeletPaths) -> AsyncIterator[RegisteredPlugin]:
    async with fake_kubelet(paths) as kubelet, serving([made], paths=paths):
        yield await kubelet.next_registration()


async def until_health(kubelet: RegisteredPlugin, **wanted: bool) -> None:
    """Read lists until one has exactly these devices, healthy or not."""
    while {name: device.is_healthy for name, device in kubelet.devices.items()} != wanted:
        await kubelet.next_list()


# --- in the plugin's process ----------------------------------------------------------------------------------------


async def test_health_falls_and_recovers_with_reasons(paths: KubeletPaths, log: Log) -> None:
    class Checked(Things):
        @health(every=OFTEN_S, fall=2, rise=2)
        def check(self, device: Device) -> Health | bool | None:
            return self.verdict(device)  # type: ignore[no-any-return]

    things = Checked("a", "b")
    async with served(things, paths) as kubelet:
        await until_health(kubelet, a=True, b=True)
        for bad, reason in [
            (unhealthy("Hot", "95 C"), "a is Unhealthy (Hot: 95 C)"),
            (None, "a is Unknown (CheckUndecided"),
            (OSError("no answer"), "a is Unknown (CheckRaised: OSError: no answer (test_health.py:"),
            (
                "hot",
                "a is Unknown (CheckInvalid: its health check gave 'hot' instead of Health, bool or None (test_health",
            ),
        ]:
            things.verdicts = {"a": bad}
            await until_health(kubelet, a=False, b=True)
            await log.seen(f"{NAME}: device {reason}")
            with pytest.raises(RpcFailed, match="is Un"):
                await kubelet.client.allocate([DeviceId("a")])
            things.verdicts = {}
            await until_health(kubelet, a=True, b=True)
        await log.seen(f"{NAME}: device a is Healthy")


async def test_new_device_is_given_out_after_its_first_check_only(paths: KubeletPaths, log: Log) -> None:
    gate = threading.Event()

    class Checked(Things):
        @health(every=3600, timeout=DEADLINE_S)
        def check(self, device: Device) -> bool:
            return gate.wait(DEADLINE_S)

    things = Checked("a")
    async with served(things, paths) as kubelet:
        await until_health(kubelet, a=False)
        gate.set()
        await until_health(kubelet, a=True)
        things.devices.append(Device("b"))
        things.refresh()
        await until_health(kubelet, a=True, b=True)  # although the next round is an hour away


async def test_check_that_hangs_here_is_not_repeated_beside_itself(paths: KubeletPaths, log: Log) -> None:
    gate, loop = threading.Event(), asyncio.get_running_loop()
    calls: list[str] = []
    seen_often: asyncio.Queue[None] = asyncio.Queue()

    class Checked(Things):
        @health(every=OFTEN_S, fall=1, timeout=0.05)
        def check(self, device: Device) -> bool:
            calls.append(device.id)
            if calls.count("b") == 5:
                asyncio.run_coroutine_threadsafe(seen_often.put(None), loop)
            return device.id != "a" or gate.wait(DEADLINE_S)

    async with served(Checked("a", "b"), paths) as kubelet:
        await until_health(kubelet, a=False, b=True)
        await log.seen("device a is Unknown (CheckTimedOut: its health check took more than 0.05 s)")
        await asyncio.wait_for(seen_often.get(), DEADLINE_S)
        assert calls.count("a") == 1
        gate.set()
        await until_health(kubelet, a=True, b=True)


async def test_async_check_that_hangs_is_cancelled_and_asked_again(paths: KubeletPaths, log: Log) -> None:
    class Checked(Things):
        is_stuck = True

        @health(every=OFTEN_S, fall=1, timeout=0.05)
        async def check(self, device: Device) -> bool:
            if self.is_stuck:
                await asyncio.Event().wait()
            return True

    things = Checked("a")
    async with served(things, paths) as kubelet:
        await log.seen("CheckTimedOut")
        things.is_stuck = False
        await until_health(kubelet, a=True)


async def test_one_check_may_judge_all(paths: KubeletPaths, log: Log) -> None:
    class Checked(Things):
        @health(every=OFTEN_S, fall=1)
        async def check(self) -> Mapping[str, Health | bool | None]:
            return self.verdicts

    things = Checked("a", "b")
    things.verdicts = {"a": True, "b": False, "unheard of": True}
    async with served(things, paths) as kubelet:
        await until_health(kubelet, a=True, b=False)
        things.verdicts = {"b": True}
        await until_health(kubelet, a=False, b=True)
        await log.seen("a is Unknown (CheckUndecided: its health check left it out)")


async def test_function_plugin_has_checks(paths: KubeletPaths, log: Log) -> None:
    @health(every=OFTEN_S)
    def bites(device: Device) -> Health | bool:
        return unhealthy("Bites") if device.id == "g2" else True

    @plugin(NAME, health=bites)
    def gophers() -> Iterator[Device]:
        yield from map(Device, ("g1", "g2"))

    async with served(gophers, paths) as kubelet:
        await until_health(kubelet, g1=True, g2=False)


# --- in a process of its own ----------------------------------------------------------------------------------------

ISOLATED = """
import os, signal, threading
from pathlib import Path
from plugbay import Device, DevicePlugin, health

ORDERS = Path(__file__).parent
LEAKED = []
TIMEOUT_S = 20

class Isolated(DevicePlugin):
    resource_name = "example.com/thing"

    def discover(self):
        return [Device("a"), Device("b")]

    @health(every=0.01, fall=1, timeout=TIMEOUT_S, isolate=True)
    def check(self, device):
        order = ORDERS / device.id
        if "descriptors" in LEAKED:
            raise OSError("too many open files")
        if not order.exists():
            return True
        match order.read_text():
            case "abort":
                os.abort()
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                threading.Event().wait()
            case "raise":
                raise OSError("no such card")
            case "exit":
                os._exit(7)
            case "leak" if not LEAKED:
                LEAKED.append(b"x" * (256 << 20))
                return False
            case "spend":
                LEAKED.append("descriptors")
            case _:
                return False
"""


HANGING = ISOLATED.replace("TIMEOUT_S = 20", "TIMEOUT_S = 1")
"""Soon given up; a check that hangs is the only one that is to take long."""


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("abort", "Unknown (CheckCrashed: the process of its health check was killed by SIGABRT)"),
        ("segfault", "Unknown (CheckCrashed: the process of its health check was killed by SIGSEGV)"),
        ("exit", "Unknown (CheckCrashed: the process of its health check exited with code 7)"),
        ("hang", "Unknown (CheckTimedOut: its health check took more than 1 s)"),
        ("raise", "Unknown (CheckRaised: OSError: no such card (isolated.py:"),
        ("false", "Unhealthy (CheckFailed: its health check says so)"),
    ],
)
async def test_isolated_check_fails_alone_and_recovers(paths: KubeletPaths, log: Log, order: str, reason: str) -> None:
    target = paths.root / "isolated.py"
    target.write_text(HANGING if order == "hang" else ISOLATED)
    [isolated] = load_plugins(str(target))
    assert isinstance(isolated, DevicePlugin)
    async with served(isolated, paths) as kubelet:
        await until_health(kubelet, a=True, b=True)
        whole = paths.root / "order"
        whole.write_text(order)
        whole.rename(paths.root / "a")
        await until_health(kubelet, a=False, b=True)
        await log.seen(f"{NAME}: device a is {reason}")
        assert await kubelet.client.allocate([DeviceId("b")]) is not None
        (paths.root / "a").unlink()
        await until_health(kubelet, a=True, b=True)


async def test_isolated_check_that_leaks_memory_gets_another_process(paths: KubeletPaths, log: Log) -> None:
    target = paths.root / "isolated.py"
    target.write_text(ISOLATED)
    [isolated] = load_plugins(str(target))
    assert isinstance(isolated, DevicePlugin)
    async with served(isolated, paths) as kubelet:
        await until_health(kubelet, a=True, b=True)
        (paths.root / "a").write_text("leak")
        await log.seen("the process of health check check has grown to ")
        (paths.root / "a").unlink()
        await until_health(kubelet, a=True, b=True)


async def test_isolated_check_that_used_up_its_process_gets_another_one(paths: KubeletPaths, log: Log) -> None:
    target = paths.root / "isolated.py"
    target.write_text(ISOLATED)
    [isolated] = load_plugins(str(target))
    assert isinstance(isolated, DevicePlugin)
    async with served(isolated, paths) as kubelet:
        await until_health(kubelet, a=True, b=True)
        (paths.root / "a").write_text("spend")
        await log.seen("b is Unknown (CheckRaised: OSError: too many open files (isolated.py:")
        (paths.root / "a").unlink()
        await until_health(kubelet, a=True, b=True)


async def test_plugin_that_cannot_be_isolated_is_refused_before_it_is_served(paths: KubeletPaths) -> None:
    class Checked(Things):
        @health(isolate=True)
        def check(self, device: Device) -> bool:
            return True

    with pytest.raises(CannotIsolate, match=r"Checked\.check cannot run in a process of its own"):
        async with serving([Checked("a")], paths=paths):
            pass
    assert list(paths.root.iterdir()) == []


# --- allocations that fail ------------------------------------------------------------------------------------------


class Failing(Things):
    """Allocation fails for the devices in ``broken``."""

    broken: tuple[str, ...] = ()

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        if failed := [device.id for device in devices if device.id in self.broken]:
            raise PartialAllocationError(failed=failed, problem="the partition is locked")
        return ContainerEdits()


async def test_devices_that_could_not_be_allocated_are_unhealthy_until_found_healthy(
    paths: KubeletPaths, log: Log
) -> None:
    things = Failing("a", "b", "c")
    things.broken = ("b",)
    async with served(things, paths) as kubelet:
        await until_health(kubelet, a=True, b=True, c=True)
        with pytest.raises(RpcFailed, match=r'cannot allocate "b": the partition is locked'):
            await kubelet.client.allocate([DeviceId("a"), DeviceId("b")])
        await until_health(kubelet, a=True, b=False, c=True)
        await log.seen(f"{NAME}: device b is Unhealthy (AllocationFailed: the partition is locked)")
        things.refresh()
        await until_health(kubelet, a=True, b=True, c=True)


async def test_next_healthy_verdict_gives_a_failed_device_back(paths: KubeletPaths) -> None:
    may_judge = asyncio.Event()
    may_judge.set()

    class Checked(Failing):
        @health(every=OFTEN_S)
        async def check(self, device: Device) -> bool:
            await may_judge.wait()
            return True

    things = Checked("a")
    things.broken = ("a",)
    async with served(things, paths) as kubelet:
        await until_health(kubelet, a=True)
        may_judge.clear()
        with pytest.raises(RpcFailed, match="locked"):
            await kubelet.client.allocate([DeviceId("a")])
        await until_health(kubelet, a=False)
        may_judge.set()
        await until_health(kubelet, a=True)
