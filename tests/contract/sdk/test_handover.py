"""Two processes that serve one resource, as a roll-out with a surge makes them: nothing is lost, whatever the kubelet.

They are two servers of this process here, with nothing in common but the directory of sockets.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin
from plugbay.model.ids import ResourceName
from plugbay.sdk.serving import handover
from plugbay.sdk.sockets import new_socket_path
from plugbay.testing.local.opening import local_kubelet
from plugbay.wire.grpc.server import serve_grpc

CARD: Final = ResourceName("example.com/card")
KUBELETS: Final = (None, "1.24", "1.36", "1.37")
"""Ours; the last one in which the newest plugin alone counts; the last one that mixes plugins up; one that does not."""
every_kubelet: Final = pytest.mark.parametrize("version", KUBELETS, ids=lambda each: each or "ours")
PROGRAM: Final = """
from plugbay import Device, plugin, run

@plugin("example.com/card")
def cards():
    return [Device("killed", env={"BY": "killed"})]

run(cards)
"""


class Cards(DevicePlugin):
    """A plugin whose answers say which process gave them; Allocate takes as long as a test wants."""

    resource_name = CARD

    def __init__(self, by: str, *names: str) -> None:
        self.by = by
        self.names = names
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    def discover(self) -> Iterable[Device]:
        return [Device(name) for name in self.names]

    async def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        self.asked.set()
        await self.may_answer.wait()
        return ContainerEdits(env={"BY": self.by})


@every_kubelet
async def test_a_younger_process_takes_over_and_keeps_the_resource_when_the_older_one_ends(version: str | None) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        older = await kubelet.plugin(Cards("older", "a", "b"))
        first = await kubelet.admit({CARD: 1})
        assert first["app"].env == {"BY": "older"}
        await kubelet.plugin(Cards("younger", "a", "b", "c"), wait=False)
        await kubelet.wait_for(devices={CARD: "abc"}, allocatable={CARD: 3})
        second = await kubelet.admit({CARD: 1})
        assert second["app"].env == {"BY": "younger"}
        await kubelet.end_plugin(older)
        assert kubelet.allocatable == {CARD: 3}
        third = await kubelet.admit({CARD: 1})
        assert third["app"].env == {"BY": "younger"}
        assert len(kubelet.calls("Register")) == 2, "the end of the older one was no loss of the younger one"
        assert kubelet.allocatable == {CARD: 3}


@every_kubelet
async def test_the_older_process_serves_again_when_the_younger_one_is_killed(
    version: str | None, tmp_path: Path
) -> None:
    (tmp_path / "cards.py").write_text(PROGRAM)
    async with local_kubelet(as_kubelet=version) as kubelet:
        await kubelet.plugin(Cards("older", "a"))
        younger = await kubelet.plugin([sys.executable, str(tmp_path / "cards.py"), "--root", "{root}"], wait=False)
        await kubelet.wait_for(devices={CARD: ["killed"]})
        kubelet.signal_plugin(younger, signal.SIGKILL)
        await kubelet.wait_for(devices={CARD: ["a"]}, allocatable={CARD: 1})
        assert (await kubelet.admit({CARD: 1}))["app"].env == {"BY": "older"}


@every_kubelet
async def test_of_two_that_begin_together_or_meet_a_new_kubelet_the_younger_one_serves(version: str | None) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        await kubelet.plugin(Cards("older", "old"), wait=False)
        await kubelet.plugin(Cards("younger", "young"), wait=False)
        for _ in range(3):
            await kubelet.wait_for(devices={CARD: ["young"]}, allocatable={CARD: 1})
            pod = await kubelet.admit({CARD: 1})
            assert pod["app"].env == {"BY": "younger"}
            await kubelet.end(pod)
            await kubelet.restart(wait=False)


@pytest.mark.parametrize("version", [None, "1.36"], ids=lambda each: each or "ours")
async def test_a_pod_that_the_older_one_allocates_for_just_then_is_admitted(version: str | None) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        slow = Cards("older", "a")
        slow.may_answer.clear()
        await kubelet.plugin(slow)
        async with asyncio.TaskGroup() as tasks:
            pod = tasks.create_task(kubelet.admit({CARD: 1}))
            await slow.asked.wait()
            await kubelet.plugin(Cards("younger", "a", "b"), wait=False)
            await asyncio.sleep(0.1)  # so that it is under way when streams could end
            slow.may_answer.set()
        assert pod.result()["app"].env == {"BY": "older"}
        await kubelet.wait_for(devices={CARD: "ab"}, allocatable={CARD: 2})


@pytest.mark.parametrize("kind", ["knows no such call", "hangs", "is gone"])
async def test_a_process_that_does_not_stand_by_holds_up_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "PATIENCE_S", 0.2)
    async with local_kubelet() as kubelet:
        path = new_socket_path(kubelet.paths.device_plugins, CARD)
        if kind == "knows no such call":
            async with serve_grpc(path, []):
                await kubelet.plugin(Cards("younger", "a"))
        else:
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(path))
                if kind == "hangs":
                    other.listen()
                await kubelet.plugin(Cards("younger", "a"))
        assert kubelet.allocatable == {CARD: 1}
