"""What tests of an author's `post_stop` and `release` share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from plugbay import Assignment, Device, DevicePlugin, Origin
from plugbay.model.ids import PodUid
from tests.contract.rigs.manager import DEADLINE_S, GOPHER, Bench, pod


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
        self.told.append(f"{what} {','.join(assignment.device_ids)}")
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
