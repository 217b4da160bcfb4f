"""What survives a SIGKILL: every confirmed allocation and nothing else, with the store and its view agreeing."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.checkpoint_data import CheckpointData, checksum
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.checkpoint.foreign import imported_state
from plugbay.manager.config import ManagerConfig
from plugbay.manager.crash_points import CrashPoint
from plugbay.manager.manager import run_manager
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import Stored
from plugbay.manager.store.store import open_store
from plugbay.model.devices import Device, PluginOptions
from plugbay.ops.changes import Changes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakes.plugin import FakePlugin, fake_plugin

CHILD: Final = Path(__file__).parents[1] / "rigs/crashing_manager.py"
GOLDEN: Final = Path(__file__).parents[2] / "golden" / "checkpoints"
RESOURCE: Final = "example.com/gopher"
DEVICES: Final = 8
DEADLINE_S: Final = 30

Held = Mapping[str, list[str]]
"""Container to devices."""


class Killed(Exception):
    """The manager died before it answered."""


class ManagerProcess:
    """`crashing_manager.py`, running, with its plugin; several requests may be under way."""

    plugin: FakePlugin

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def ask(self, do: str, **members: object) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            Killed: there is none and there will be none.
        """
        number = next(self._ids)
        return await self.answer_to(number, json.dumps({"id": number, "do": do, **members}))

    async def answer_to(self, number: int, line: str = "") -> dict[str, Any]:
        future = self._answers.setdefault(number, asyncio.get_running_loop().create_future())
        assert self.process.stdin is not None
        if self.process.stdin.is_closing():
            raise Killed
        self.process.stdin.write(f"{line}\n".encode() if line else b"")
        async with asyncio.timeout(DEADLINE_S):
            return await future

    async def read(self) -> None:
        """Hand out the answers until the process is dead."""
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        async for line in self.process.stdout:
            answer = json.loads(line)
            self._answers.setdefault(answer["id"], asyncio.get_running_loop().create_future()).set_result(answer)
        self.process.stdin.close()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(Killed())

    async def stop(self) -> None:
        """End it the normal way."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(DEADLINE_S):
            assert await self.process.wait() == 0


@asynccontextmanager
async def manager_process(
    root: Path, *fate: str, options: PluginOptions | None = None, gates: str = ""
) -> AsyncIterator[ManagerProcess]:
    """A manager with a plugin of 8 healthy devices, killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(CHILD),
        str(root),
        *fate,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"FEATURE_GATES": gates},
    )
    paths = KubeletPaths(root)
    manager = ManagerProcess(process)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.read())
            await manager.answer_to(0)
            devices = [Device(f"g{number}") for number in range(DEVICES)]
            socket = paths.device_plugins / "gopher.sock"
            async with fake_plugin(RESOURCE, socket, devices, options=options) as plugin:
                manager.plugin = plugin
                await plugin.register(paths.registration_socket)
                await manager.ask("wait")
                yield manager
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Ledger:
    """What the clients of the manager know."""

    def __init__(self) -> None:
        self.confirmed: dict[str, Held] = {}
        self.unanswered: set[str] = set()
        self.releasing: dict[str, Held] = {}
        self._confirmations = 0
        self._news = Changes()

    async def admit(self, manager: ManagerProcess, pod: str, count: int) -> None:
        self.unanswered.add(pod)
        answer = await manager.ask("admit", pod=pod, count=count)
        self.unanswered.discard(pod)
        if "held" in answer:
            self.confirmed[pod] = answer["held"]
            self._confirmations += 1
            self._news.notify()

    async def until_confirmed_more(self, count: int) -> None:
        """Wait for so many more admissions."""
        wanted = self._confirmations + count
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self._news:
                if self._confirmations >= wanted:
                    return

    async def release(self, manager: ManagerProcess, pod: str) -> None:
        self.releasing[pod] = self.confirmed.pop(pod, {})
        await manager.ask("release", pod=pod)
        del self.releasing[pod]

    def check(self, pods: Mapping[str, Held]) -> None:
        """Hold what a manager remembers against what its clients were told."""
        assert {pod: pods.get(pod) for pod in self.confirmed} == self.confirmed
        assert pods.keys() <= self.confirmed.keys() | self.unanswered | self.releasing.keys()
        owners: dict[str, str] = {}
        for pod, held in pods.items():
            for device in {device for devices in held.values() for device in devices}:
                assert owners.setdefault(device, pod) == pod
            assert held["init"] == held["app"], "half an admission"

    def settle(self, pods: Mapping[str, Held]) -> None:
        """The clients come back: who holds devices counts as admitted, or is still to be released."""
        self.confirmed = {pod: held for pod, held in pods.items() if pod not in self.releasing}
        self.releasing = {pod: held for pod, held in self.releasing.items() if pod in pods}
        self.unanswered.clear()


async def check_after_crash(root: Path, ledger: Ledger) -> None:
    """The files a killed manager left: whole, ours, and true to what it had confirmed."""
    stored = await stored_in(root)
    by_pod: dict[str, dict[str, list[str]]] = {}
    for assignment in stored.assignments:
        by_pod.setdefault(assignment.pod, {})[assignment.container] = sorted(assignment.devices)
    ledger.check(by_pod)
    view = view_in(root)
    assert view is None or checksum(view) in stored.view_checksums, "the next start would import our own file"


async def check_view_is_store(root: Path) -> None:
    view, stored = view_in(root), await stored_in(root)
    assert view is not None
    assert as_set(imported_state(view)) == as_set(stored)
    assert checksum(view) in stored.view_checksums


async def stored_in(root: Path) -> Stored:
    async with open_store(root / "state" / "manager.db") as store:
        return await asyncio.to_thread(store.load)


def view_in(root: Path) -> CheckpointData | None:
    path = KubeletPaths(root).checkpoint
    return load(path.read_bytes(), source=str(path)) if path.exists() else None


def as_set(stored: Stored) -> set[tuple[object, ...]]:
    return {identity(assignment) for assignment in stored.assignments} | {(name,) for name in stored.resources}


def identity(item: HeldDevices) -> tuple[object, ...]:
    return item.pod, item.container, item.resource, tuple(sorted(item.by_node.items())), item.response


# --- at every named point -------------------------------------------------------------------------------------------

LOST, KEPT = "lost", "kept"


@pytest.mark.parametrize(
    ("point", "number", "outcome"),
    [
        # The pod has two Allocate calls, so the third and fourth are those of the second pod.
        pytest.param(CrashPoint.ALLOCATING.value, 3, LOST, id="before-first-allocate"),
        pytest.param(CrashPoint.ALLOCATED.value, 3, LOST, id="after-first-allocate"),
        pytest.param(CrashPoint.ALLOCATED.value, 4, LOST, id="after-last-allocate"),
        pytest.param(CrashPoint.COMMITTING.value, 2, LOST, id="before-commit"),
        pytest.param(CrashPoint.COMMITTED.value, 2, KEPT, id="after-commit"),
        pytest.param(CrashPoint.ANSWERING.value, 2, KEPT, id="before-answer"),
        pytest.param("after answer", 2, KEPT, id="after-answer"),
    ],
)
async def test_kill_during_an_admission(sockets: Path, point: str, number: int, outcome: str) -> None:
    ledger = Ledger()
    async with manager_process(sockets, point, str(number)) as manager:
        await ledger.admit(manager, "first", 2)
        if point == "after answer":
            await ledger.admit(manager, "second", 3)
        else:
            with pytest.raises(Killed):
                await ledger.admit(manager, "second", 3)
        assert await manager.process.wait() == -signal.SIGKILL
    await check_after_crash(sockets, ledger)
    async with manager_process(sockets) as manager:
        pods = (await manager.ask("state"))["pods"]
        ledger.check(pods)
        assert ("second" in pods) == (outcome == KEPT)
        assert ("refused" in await manager.ask("admit", pod="third", count=6)) == (outcome == KEPT)
        await manager.ask("release", pod="third")
        await ledger.admit(manager, "second", 3)
        assert ledger.confirmed["second"] == pods.get("second", ledger.confirmed["second"])
        await ledger.admit(manager, "third", 3)  # all the rest: nobody else holds anything
        assert ledger.confirmed.keys() == {"first", "second", "third"}
        await manager.stop()
    await check_view_is_store(sockets)


@pytest.mark.parametrize(
    ("point", "outcome"),
    [
        pytest.param(CrashPoint.RELEASING.value, KEPT, id="before"),
        pytest.param(CrashPoint.RELEASED.value, LOST, id="after"),
    ],
)
async def test_kill_during_a_release(sockets: Path, point: str, outcome: str) -> None:
    ledger = Ledger()
    async with manager_process(sockets, point, "1") as manager:
        await ledger.admit(manager, "first", 2)
        with pytest.raises(Killed):
            await ledger.release(manager, "first")
    await check_after_crash(sockets, ledger)
    async with manager_process(sockets) as manager:
        pods = (await manager.ask("state"))["pods"]
        assert ("first" in pods) == (outcome == KEPT)
        await manager.ask("release", pod="first")
        ledger.settle({})
        await ledger.admit(manager, "second", DEVICES)
        assert "second" in ledger.confirmed
        await manager.stop()
    await check_view_is_store(sockets)


@pytest.mark.parametrize("point", ["before view", "after view"])
async def test_kill_while_the_view_is_written(sockets: Path, point: str) -> None:
    """It is the first one that shows the pod, and may come before the pod's admission is answered."""
    ledger = Ledger()
    async with manager_process(sockets, point, "1") as manager:
        with suppress(Killed):
            await ledger.admit(manager, "first", 2)
        async with asyncio.timeout(DEADLINE_S):
            assert await manager.process.wait() == -signal.SIGKILL
    await check_after_crash(sockets, ledger)
    async with manager_process(sockets) as manager:
        ledger.check((await manager.ask("state"))["pods"])
        await manager.stop()
    await check_view_is_store(sockets)


# --- at random ------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)  # starts a manager some 25 times
async def test_kills_at_random(sockets: Path) -> None:
    await kill_at_random(sockets, random.Random(1), admissions=30)


@pytest.mark.soak
async def test_kills_at_random_over_a_thousand_admissions(sockets: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201  # pytest shows it when the test fails
    await kill_at_random(sockets, random.Random(seed), admissions=1_000)


async def kill_at_random(root: Path, chance: random.Random, *, admissions: int) -> None:
    """Kill managers until so many admissions were confirmed."""
    ledger = Ledger()
    numbers = itertools.count(1)
    confirmed = 0
    while confirmed < admissions:
        async with manager_process(root) as manager:
            pods = (await manager.ask("state"))["pods"]
            ledger.check(pods)
            ledger.settle(pods)
            for pod in list(ledger.releasing):
                await ledger.release(manager, pod)
            async with asyncio.TaskGroup() as tasks:
                clients = [tasks.create_task(be_a_client(manager, ledger, chance, numbers)) for _ in range(4)]
                await ledger.until_confirmed_more(chance.randrange(4))  # or a slow machine would never come to an end
                await asyncio.sleep(chance.uniform(0, 0.02))  # not to wait for anything: the moment is what varies
                manager.process.kill()
        confirmed += sum(client.result() for client in clients)
        await check_after_crash(root, ledger)
    async with manager_process(root) as manager:
        ledger.check((await manager.ask("state"))["pods"])
        await manager.stop()
    await check_view_is_store(root)


async def be_a_client(
    manager: ManagerProcess, ledger: Ledger, chance: random.Random, numbers: itertools.count[int]
) -> int:
    """Admit and release pods until the manager is killed; how many admissions were confirmed."""
    confirmed = 0
    try:
        while True:
            pod = f"pod-{next(numbers)}"
            await ledger.admit(manager, pod, chance.randint(1, 3))
            confirmed += pod in ledger.confirmed
            if ledger.confirmed and (pod not in ledger.confirmed or chance.random() < 0.7):
                await ledger.release(manager, chance.choice(sorted(ledger.confirmed)))
    except Killed:
        return confirmed


# --- taking over and giving back ------------------------------------------------------------------------------------


def accepted_samples() -> list[Path]:
    return [path for path in sorted(GOLDEN.glob("*.json")) if json.loads(path.read_bytes())["load_error"] is None]


@pytest.mark.parametrize("path", accepted_samples(), ids=lambda path: path.stem)
async def test_kubelets_checkpoint_is_taken_over_and_given_back(sockets: Path, path: Path) -> None:
    content = json.loads(path.read_bytes())["file_text"].encode()
    paths = KubeletPaths(sockets)
    paths.device_plugins.mkdir(parents=True)
    paths.checkpoint.write_bytes(content)
    theirs = imported_state(load(content, source=path.name))
    async with run_manager(ManagerConfig(paths, sockets / "state" / "manager.db"), clock=ManualClock()) as manager:
        for assignment in theirs.assignments:
            held = manager.devices_of(assignment.pod)[assignment.container]
            assert set(held[assignment.resource]) == assignment.devices
        assert manager.resources().keys() >= set(theirs.resources)
    given_back = view_in(sockets)
    assert given_back is not None
    assert as_set(imported_state(given_back)) == as_set(theirs)
    await check_view_is_store(sockets)
