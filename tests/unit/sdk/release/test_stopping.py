"""Who has devices by each checkpoint that is written, and whose containers run although none names them any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.evidence.readings import Readings
from plugbay.sdk.release.evidence.stopping import StoppingPods
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import KubeletLife, Reading, Use
from plugbay.sdk.watching import Watches, watching

GOPHER = ResourceName("example.com/gopher")
A, B = DeviceId("a"), DeviceId("b")
DEADLINE_S = 30.0


class Node:
    """A kubelet's files, a ledger of uses, and pods' control groups.

    Attributes:
        ignored: a use of which no checkpoint is asked.
    """

    def __init__(self, base: Path, watches: Watches) -> None:
        self.paths = KubeletPaths(base / "kubelet")
        self.paths.device_plugins.mkdir(parents=True)
        self.paths.registration_socket.touch()
        self.ledger = Ledger(Journal(base, GOPHER, "boot"), GOPHER, Trouble.RAISED)
        self.readings = Readings(self.paths, GOPHER, watches, resend=lambda: 0)
        self.stopping = StoppingPods(base / "proc")
        self.ignored: AssignmentKey | None = None
        (base / "proc/self").mkdir(parents=True)
        (base / "proc/self/mountinfo").write_text(f"1 1 0:1 / {base}/cgroup rw - cgroup2 cgroup2 rw\n")
        self._cgroups = base / "cgroup/kubepods"
        self._cgroups.mkdir(parents=True)

    def runs(self, pod: str) -> Path:
        """The control group of its only container."""
        made = self._cgroups / f"pod{pod}/container"
        made.mkdir(parents=True)
        return made

    def give(self, *units: DeviceId) -> Use:
        return self.ledger.begin({unit: unit for unit in units or (A,)}, "")

    def writes(self, **holders: DeviceId | Sequence[DeviceId]) -> None:
        """As a kubelet does it: these pods have these devices."""
        entries = [
            PodDevicesEntry(pod, "app", GOPHER, {-1: [units] if isinstance(units, str) else [*units]}, b"")
            for pod, units in holders.items()
        ]
        fresh = self.paths.checkpoint.with_name(".fresh")
        fresh.write_bytes(encode(CheckpointData(entries, {GOPHER: [A, B]})))
        fresh.rename(self.paths.checkpoint)

    def goes_on(self, use: Use) -> bool:
        return use.key in self.stopping.going_on([use])


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with watching() as watches:
        made = Node(tmp_path, watches)
        made.ledger.open()
        learning = made.stopping.learn(made.ledger, made.readings, watches, matters=lambda use: use.key != made.ignored)
        task = asyncio.create_task(learning)
        yield made
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        made.ledger.close()


async def test_pod_with_a_container_goes_on(node: Node) -> None:
    use = replace(node.give(), pod=PodUid("p"))
    assert not node.goes_on(use)
    container = node.runs("p")
    assert node.goes_on(use)
    container.rmdir()
    assert not node.goes_on(use)


async def test_each_checkpoint_tells_whose_devices_are(node: Node) -> None:
    """The next one, which comes when the kubelet has dropped them, takes nothing back."""
    first = node.give()
    node.runs("p")
    node.writes(p=A)
    await until(lambda: node.goes_on(first))
    second = node.give(B)
    node.runs("q")
    node.writes(q=B)
    await until(lambda: node.goes_on(second))
    assert node.goes_on(first)


async def test_who_had_a_device_before_does_not_count_once_the_pod_is_known(node: Node) -> None:
    use = node.give()
    node.runs("p")
    node.writes(p=A)
    await until(lambda: node.goes_on(use))
    assert not node.goes_on(replace(use, pod=PodUid("q")))


async def test_part_that_others_were_given_is_still_of_its_pod(node: Node) -> None:
    """The lazy split a use when a pod asks for some of its devices, and part of it gets a key of its own."""
    both = node.give(A, B)
    node.runs("p")
    node.writes(p=[A, B])
    await until(lambda: node.goes_on(both))
    node.ledger.overtake(both.key, [A])
    assert {(*use.units,): node.goes_on(use) for use in node.ledger.uses()} == {(A,): True, (B,): True}


async def test_use_that_another_process_has_just_given_counts(node: Node, tmp_path: Path) -> None:
    """Nobody has told this one of it but the journal."""
    other = Ledger(Journal(tmp_path, GOPHER, "boot"), GOPHER, Trouble.RAISED)
    with closing(other):
        other.open()
        use = other.begin({A: A}, "")
        other.answered(use.key)
        node.runs("p")
        node.writes(p=A)
        await until(lambda: any(map(node.goes_on, node.ledger.uses())))


async def test_checkpoint_is_read_only_if_that_matters(node: Node) -> None:
    ignored, use = node.give(), node.give(B)
    node.ignored = ignored.key
    node.runs("p")
    node.writes(p=[A, B])
    await until(lambda: node.goes_on(use))
    assert not node.goes_on(ignored)


async def test_reading_is_told_only_of_what_it_does_not_list(node: Node) -> None:
    """Else each would look at the control groups of all pods."""
    listed, absent = (replace(use, pod=PodUid("p"), seen_in="1") for use in (node.give(), node.give(B)))
    node.runs("p")
    reading = Reading(0.0, KubeletLife("", 0.0), {A: frozenset({(PodUid("p"), ContainerName("app"))})})
    assert (await node.stopping.seen([listed, absent], reading)).going_on == {absent.key}


async def test_waits_until_the_pod_has_stopped(node: Node) -> None:
    use = replace(node.give(), pod=PodUid("p"))
    container = node.runs("p")
    waiting = asyncio.create_task(node.stopping.until_stopped([use], DEADLINE_S))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    container.rmdir()
    await waiting
    assert not node.goes_on(use)


async def test_waits_no_longer_than_it_may(node: Node) -> None:
    use = replace(node.give(), pod=PodUid("p"))
    node.runs("p")
    await node.stopping.until_stopped([use], 0.2)
    assert node.goes_on(use)


async def until(condition: Callable[[], bool]) -> None:
    """Nothing tells when the file has been read."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)
