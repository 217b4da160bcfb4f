"""Post-start and pre-stop hooks, and what they do to the order and the time of a pod's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugbay.model.actions import ExecAction, SleepAction
from plugbay.model.pods import RestartPolicy
from plugbay.model.requests import ContainerKind
from plugbay.pods.status import PodPhase, phase, pod_status
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, is_in, pod, runs, waits_for

SIDECAR = ContainerKind.SIDECAR


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


async def test_a_container_runs_only_when_its_post_start_hook_is_done(node: FakeNode) -> None:
    hooked = container("a", post_start=SleepAction(3))
    async with node.engine() as engine:
        await engine.create(pod(hooked, container("b")))
        record = await node.until(runs(0, "a"))
        status: Any = pod_status(record, runtime="fake")
        (shown, _) = status["containerStatuses"]
        assert (status["phase"], shown["ready"], shown["started"]) == ("Pending", False, False)
        assert shown["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await node.when(lambda: 3 in node.clock.naps)
        assert node.runtime.started == ["a"]
        node.clock.advance(3)
        await node.until(is_in(PodPhase.RUNNING))
        assert node.runtime.started == ["a", "b"]
        assert node.runtime.commands == []


async def test_a_failed_post_start_hook_stops_the_container_and_the_policy_decides(node: FakeNode) -> None:
    node.runtime.exec_codes["warm-up"] = 3
    hooked = container("c", post_start=ExecAction(("warm-up", "now")))
    async with node.engine() as engine:
        await engine.create(pod(hooked, policy=RestartPolicy.ALWAYS))
        await node.until(waits_for("CrashLoopBackOff"))
        assert node.runtime.commands == ["c: warm-up now", "c: warm-up now"]
        assert set(node.reasons()) >= {"Started", "FailedPostStartHook", "Killing", "BackOff"}
        texts = {event.reason: event.message for event in node.events}
        assert (texts["FailedPostStartHook"], texts["Killing"]) == ("PostStartHook failed", "FailedPostStartHook")


async def test_a_hook_without_an_end_holds_the_pod_until_it_is_deleted(node: FakeNode) -> None:
    node.runtime.exec_codes["hangs"] = None
    async with node.engine() as engine:
        await engine.create(pod(container("c", post_start=ExecAction(("hangs",)))))
        await node.when(lambda: node.runtime.commands == ["c: hangs"])
        await engine.delete("default", "p")
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("c", 30)]


async def test_a_pod_adopted_in_its_post_start_hook_does_without(node: FakeNode) -> None:
    """As with a kubelet, which runs a hook only when it starts the container."""
    node.runtime.exec_codes["hangs"] = None
    async with node.engine() as engine:
        await engine.create(pod(container("c", post_start=ExecAction(("hangs",)))))
        await node.when(lambda: len(node.runtime.commands) == 1)
    async with node.engine():
        await node.until(is_in(PodPhase.RUNNING))
        assert node.runtime.commands == ["c: hangs"]


async def test_the_pre_stop_hook_takes_its_time_from_the_grace_period(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=SleepAction(4)), container("d")))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p", grace_s=10)
        await node.when(lambda: 4 in node.clock.naps and 10 in node.clock.naps)
        assert node.runtime.stopped == [("d", 10)]
        node.clock.advance(4)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("d", 10), ("c", 6)]


async def test_a_hook_that_outlasts_the_grace_period_leaves_two_seconds(node: FakeNode) -> None:
    node.runtime.exec_codes["hangs"] = None
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=ExecAction(("hangs",)))))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p", grace_s=10)
        await node.when(lambda: 10 in node.clock.naps)
        node.clock.advance(10)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("c", 2)]


async def test_a_failed_pre_stop_hook_is_told_and_the_stop_goes_on(node: FakeNode) -> None:
    node.runtime.exec_codes["say-goodbye"] = 1
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=ExecAction(("say-goodbye",)))))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p")
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("c", 30)]
        assert [event.message for event in node.events if event.reason == "FailedPreStopHook"] == ["PreStopHook failed"]


@pytest.mark.parametrize("ends", ["forced", "by itself"])
async def test_there_is_no_pre_stop_hook(node: FakeNode, ends: str) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=ExecAction(("bye",))), policy=RestartPolicy.NEVER))
        await node.until(is_in(PodPhase.RUNNING))
        if ends == "forced":
            await engine.delete("default", "p", grace_s=0)
            await node.when(lambda: not list(node.pods))
        else:
            node.runtime.finish("p_c_0", 0)
            await node.until(is_in(PodPhase.SUCCEEDED))
        assert node.runtime.commands == []


async def test_a_container_that_ends_in_its_pre_stop_hook_is_not_waited_for(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=SleepAction(20))))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p")
        await node.when(lambda: 20 in node.clock.naps)
        node.runtime.finish("p_c_0", 0)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == []


async def test_hooks_run_together_and_sidecars_stop_last(node: FakeNode) -> None:
    """All pre-stop hooks begin at once; SIGTERM comes to the app first, to the sidecars in reverse."""
    made = [container(name, SIDECAR, pre_stop=ExecAction(("bye",))) for name in ("s1", "s2")]
    node.runtime.deaf = {"a"}
    async with node.engine() as engine:
        await engine.create(pod(*made, container("a", pre_stop=ExecAction(("bye",)))))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p", grace_s=10)
        await node.when(lambda: node.runtime.stopped == [("a", 10)])
        assert sorted(node.runtime.commands) == ["a: bye", "s1: bye", "s2: bye"]
        node.clock.advance(4)
        node.runtime.finish("p_a_0", 0)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("a", 10), ("s2", 6), ("s1", 6)]


async def test_sidecars_do_not_wait_longer_than_the_grace_period(node: FakeNode) -> None:
    node.runtime.deaf = {"a"}
    async with node.engine() as engine:
        await engine.create(pod(container("s", SIDECAR), container("a")))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p", grace_s=10)
        await node.when(lambda: node.clock.naps.count(10) == 2)
        node.clock.advance(10)
        await node.when(lambda: ("s", 2) in node.runtime.stopped)
        await node.when(lambda: not list(node.pods))


async def test_a_shorter_grace_period_cuts_the_hooks_short(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("c", pre_stop=SleepAction(20))))
        await node.until(is_in(PodPhase.RUNNING))
        await engine.delete("default", "p")
        await node.when(lambda: 20 in node.clock.naps)
        await engine.delete("default", "p", grace_s=0)
        await node.when(lambda: not list(node.pods))
        assert node.runtime.stopped == [("c", 0)]


async def test_the_next_container_waits_for_a_sidecars_hook(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("s", SIDECAR, post_start=SleepAction(5)), container("c")))
        await node.when(lambda: 5 in node.clock.naps)
        assert node.runtime.started == ["s"]
        node.clock.advance(5)
        assert phase(await node.until(is_in(PodPhase.RUNNING))) is PodPhase.RUNNING


async def test_a_hook_after_a_restart_of_the_node_hides_no_end_of_another_container(node: FakeNode) -> None:
    async with node.engine() as engine:
        await engine.create(pod(container("a", post_start=SleepAction(3)), container("b")))
        await node.when(lambda: 3 in node.clock.naps)
        node.clock.advance(3)
        await node.until(runs(0, "b"))
        node.runtime.finish("p_a_0", 1)
        await node.when(lambda: node.clock.naps.count(3) == 2)
        node.clock.advance(3)
        node.runtime.finish("p_a_1", 1)
        await node.until(waits_for("CrashLoopBackOff", "a"))
    async with node.engine():
        await node.when(lambda: node.clock.naps.count(3) == 3)
        node.runtime.finish("p_b_0", 1)
        await node.until(runs(1, "b"))
