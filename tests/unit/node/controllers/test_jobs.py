"""Jobs, step by step."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.node.controllers.jobs.indexes import read_indexes, write_indexes
from plugbay.node.controllers.jobs.seen import TRACKING
from plugbay.pods.status import PodPhase
from tests.unit.node.controllers.world import World, conditions, template

TWICE = {"completions": 2, "parallelism": 1}


def job(**spec: Any) -> World:
    world = World()
    spec = {"template": template("i:1", restartPolicy="Never"), **spec}
    world.create("jobs", {"metadata": {"name": "d"}, "spec": spec})
    world.settle()
    return world


def status(world: World) -> Any:
    return world.value("jobs")["status"]


def end_one(world: World, phase: PodPhase, **fields: Any) -> None:
    world.end(world.active()[0].name, phase, **fields)
    world.settle()


def test_a_job_runs_its_pods_one_after_another_and_counts_them() -> None:
    world = job(**TWICE)
    [first] = world.active()
    assert first.finalizers == (TRACKING,)
    assert first.labels["batch.kubernetes.io/job-name"] == "d"
    end_one(world, PodPhase.SUCCEEDED)
    assert (status(world)["succeeded"], len(world.active())) == (1, 1)
    end_one(world, PodPhase.SUCCEEDED)
    assert status(world)["succeeded"] == 2
    assert conditions(world.value("jobs")) == {
        "SuccessCriteriaMet": ("True", "CompletionsReached"),
        "Complete": ("True", "CompletionsReached"),
    }
    assert "completionTime" in status(world)
    assert [each.finalizers for each in world.pods.values()] == [(), ()]
    assert world.told == ["Completed"]


def test_a_pod_that_is_removed_right_after_its_end_is_counted() -> None:
    world = job(**TWICE)
    [pod] = world.active()
    world.end(pod.name, PodPhase.SUCCEEDED)
    world.change(pod.name, is_deleting=True)
    world.settle()
    assert (status(world)["succeeded"], pod.name in world.pods) == (1, False)


def test_counting_goes_on_after_a_stop_at_any_moment() -> None:
    """The status names a pod before the pod loses its finalizer, and counts it only afterwards."""
    world = job(**TWICE)
    [pod] = world.active()
    world.end(pod.name, PodPhase.SUCCEEDED)
    world.step("jobs", "d")
    assert status(world)["uncountedTerminatedPods"] == {"succeeded": [pod.uid]}
    assert (status(world).get("succeeded"), world.pods[pod.name].finalizers) == (None, (TRACKING,))
    world.step("jobs", "d")
    assert (status(world)["succeeded"], world.pods[pod.name].finalizers) == (1, ())


def test_failures_wait_longer_and_longer_until_the_limit() -> None:
    world = job(backoffLimit=2)
    for wait_s in (10, 20):
        end_one(world, PodPhase.FAILED)
        assert (world.active(), world.again_s["jobs", "d"]) == ([], wait_s)
        world.sleep(wait_s)
        world.settle()
    end_one(world, PodPhase.FAILED)
    assert status(world)["failed"] == 3
    assert conditions(world.value("jobs")) == {
        "FailureTarget": ("True", "BackoffLimitExceeded"),
        "Failed": ("True", "BackoffLimitExceeded"),
    }


def test_the_deadline_ends_a_job_when_its_pods_have_stopped() -> None:
    world = job(activeDeadlineSeconds=60)
    assert world.again_s["jobs", "d"] == 60
    world.sleep(60)
    world.settle()
    assert conditions(world.value("jobs")) == {"FailureTarget": ("True", "DeadlineExceeded")}
    [pod] = list(world.pods.values())
    assert pod.is_deleting
    world.stop(pod.name)
    world.settle()
    assert conditions(world.value("jobs"))["Failed"] == ("True", "DeadlineExceeded")
    assert (status(world)["failed"], world.pods) == (1, {})


def test_a_suspended_job_gives_up_its_pods_without_counting_them() -> None:
    world = job(parallelism=2, completions=4)
    world.edit("jobs", "d", suspend=True)
    world.settle()
    assert (world.active(), conditions(world.value("jobs"))) == ([], {"Suspended": ("True", "JobSuspended")})
    for name in list(world.pods):
        world.stop(name)
    world.sleep(100)
    world.edit("jobs", "d", suspend=False)
    world.settle()
    assert (len(world.active()), status(world).get("failed")) == (2, None)
    assert conditions(world.value("jobs")) == {"Suspended": ("False", "JobResumed")}
    assert status(world)["startTime"] == "2026-01-01T00:01:40Z"


def test_an_indexed_job_completes_each_index_once() -> None:
    world = job(completions=5, parallelism=3, completionMode="Indexed")
    names = sorted(world.pods)
    assert [each[:4] for each in names] == ["d-0-", "d-1-", "d-2-"]
    spec: Any = world.specs[names[1]]
    assert spec["hostname"] == "d-1"
    assert spec["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    world.end(names[1], PodPhase.SUCCEEDED)
    world.settle()
    assert status(world)["completedIndexes"] == "1"
    world.end(names[0], PodPhase.FAILED)
    world.settle()
    world.sleep(10)
    world.settle()
    assert sorted(each.name[:4] for each in world.active()) == ["d-0-", "d-2-", "d-3-"]
    while world.active():
        end_one(world, PodPhase.SUCCEEDED)
    assert (status(world)["completedIndexes"], status(world)["succeeded"]) == ("0-4", 5)
    assert conditions(world.value("jobs"))["Complete"][0] == "True"


def test_a_job_without_completions_ends_with_its_first_success() -> None:
    world = job(parallelism=3)
    end_one(world, PodPhase.SUCCEEDED)
    assert len(world.active()) == 2, "no further pod is made, and those at work go on"
    end_one(world, PodPhase.SUCCEEDED)
    end_one(world, PodPhase.FAILED)
    assert conditions(world.value("jobs"))["Complete"][0] == "True"


def test_the_policy_for_failures_ignores_counts_or_ends() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    world = job(podFailurePolicy={"rules": rules})
    end_one(world, PodPhase.FAILED, conditions=frozenset({("DisruptionTarget", "True")}))
    assert status(world).get("failed") is None
    world.sleep(600)
    world.settle()
    end_one(world, PodPhase.FAILED, exit_codes={"c": 1})
    assert status(world)["failed"] == 1
    world.sleep(600)
    world.settle()
    end_one(world, PodPhase.FAILED, exit_codes={"c": 42})
    failed = next(each for each in status(world)["conditions"] if each["type"] == "Failed")
    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"].endswith("failed with exit code 42 matching FailJob rule at index 1")


def test_a_finished_job_is_deleted_after_its_time() -> None:
    world = job(ttlSecondsAfterFinished=30)
    end_one(world, PodPhase.SUCCEEDED)
    assert world.again_s["jobs", "d"] == 30
    world.sleep(30)
    world.settle()
    assert world.of("jobs") == []


@given(st.frozensets(st.integers(0, 40)))
def test_indexes_are_read_as_they_were_written(indexes: frozenset[int]) -> None:
    assert read_indexes(write_indexes(indexes)) == indexes


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_sequence_ends_with_every_pod_counted_once(data: st.DataObject) -> None:
    completions = data.draw(st.integers(1, 4))
    parallelism = data.draw(st.integers(1, 4))
    mode = data.draw(st.sampled_from(["Indexed", "NonIndexed"]))
    world = job(completions=completions, parallelism=parallelism, completionMode=mode, backoffLimit=1000)
    succeeded = failed = 0
    for _ in range(data.draw(st.integers(0, 25))):
        live = sorted(each.name for each in world.active())
        kind = data.draw(st.sampled_from(["succeed", "fail", "delete", "stop", "suspend", "time", "remove"]))
        if kind in ("succeed", "fail", "delete") and live:
            name = data.draw(st.sampled_from(live))
            if kind == "succeed":
                world.end(name, PodPhase.SUCCEEDED)
                succeeded += 1
            elif kind == "fail":
                world.end(name, PodPhase.FAILED)
                failed += 1
            else:
                world.change(name, is_deleting=True)
                failed += 1
        elif kind == "stop":
            for each in [each for each in world.pods.values() if each.is_deleting and not each.is_over]:
                world.stop(each.name)
        elif kind == "remove":
            for name, each in list(world.pods.items()):
                if each.is_over:
                    world.change(name, is_deleting=True)
        elif kind == "suspend":
            world.edit("jobs", "d", suspend=data.draw(st.booleans()))
        elif kind == "time":
            world.sleep(data.draw(st.integers(1, 700)))
        if data.draw(st.booleans()):
            world.step("jobs", "d")
        else:
            world.settle()
        assert len(world.active()) <= parallelism
    world.edit("jobs", "d", suspend=False)
    for _ in range(50):
        world.sleep(700)
        world.settle()
        for each in list(world.pods.values()):
            if each.is_deleting and each.name in world.pods:
                world.stop(each.name)
            elif each.is_active:
                world.end(each.name, PodPhase.SUCCEEDED)
                succeeded += 1
        world.settle()
    assert conditions(world.value("jobs"))["Complete"][0] == "True"
    assert (status(world)["succeeded"], status(world).get("failed", 0)) == (completions, failed)
    assert succeeded == completions
