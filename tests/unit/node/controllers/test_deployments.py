"""Deployments and their ReplicaSets, step by step."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.node.controllers.deployments.seen import SeenDeployment
from plugbay.pods.status import PodPhase
from tests.unit.node.controllers.world import World, conditions, template

SELECTOR = {"matchLabels": {"app": "a"}}


def deployed(replicas: int = 3, **spec: Any) -> World:
    world = World()
    spec = {"replicas": replicas, "selector": SELECTOR, "template": template("i:1"), **spec}
    world.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    world.settle()
    return world


def rolled_out(world: World) -> World:
    """Let every pod become ready, or stop, until the rollout is done."""
    for _ in range(100):
        world.settle()
        moving = [each for each in world.pods.values() if each.is_deleting or not each.ready_since]
        if not moving:
            return world
        for each in moving:
            if each.is_deleting:
                world.stop(each.name)
            elif not each.is_over:
                world.ready(each.name)
            else:
                del world.pods[each.name]
    raise AssertionError("the rollout does not end")


def sizes(world: World) -> dict[str, int]:
    """The pods that each image is to have."""
    sets = world.of("replicasets")
    return {each["spec"]["template"]["spec"]["containers"][0]["image"]: each["spec"]["replicas"] for each in sets}


def test_a_deployment_makes_a_replica_set_with_its_pods() -> None:
    world = deployed()
    [made] = world.of("replicasets")
    digest = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"d-{digest}"
    assert made["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": digest}
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert [each.labels for each in world.pods.values()] == [{"app": "a", "pod-template-hash": digest}] * 3
    assert conditions(world.value("deployments")) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    rolled_out(world)
    value = world.value("deployments")
    assert {
        name: value["status"][name] for name in ("replicas", "updatedReplicas", "availableReplicas")
    } == dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 3)
    assert conditions(value) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


def test_a_rollback_uses_the_old_replica_set_with_a_new_revision() -> None:
    world = rolled_out(deployed())
    world.edit("deployments", "d", template=template("i:2"))
    rolled_out(world)
    assert sizes(world) == {"i:1": 0, "i:2": 3}
    back = template("i:1")
    back["metadata"] = {"labels": {"app": "a"}, "creationTimestamp": None}
    back["spec"]["containers"][0]["resources"] = {}  # type: ignore[index]
    world.edit("deployments", "d", template=back)
    rolled_out(world)
    assert sizes(world) == {"i:1": 3, "i:2": 0}
    first = next(each for each in world.of("replicasets") if each["spec"]["replicas"])
    assert first["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert first["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert world.value("deployments")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_recreate_waits_until_no_old_pod_is_left() -> None:
    world = rolled_out(deployed(strategy={"type": "Recreate"}))
    world.edit("deployments", "d", template=template("i:2"))
    world.settle()
    assert (len(world.active()), len(world.pods), sizes(world)) == (0, 3, {"i:1": 0})
    for name in list(world.pods):
        assert sizes(world) == {"i:1": 0}
        world.stop(name)
        world.settle()
    assert (len(world.active()), sizes(world)) == (3, {"i:1": 0, "i:2": 3})


def test_a_paused_deployment_is_scaled_and_not_rolled_out() -> None:
    world = rolled_out(deployed())
    world.edit("deployments", "d", paused=True, template=template("i:2"))
    world.settle()
    world.edit("deployments", "d", replicas=5)
    world.settle()
    assert sizes(world) == {"i:1": 5}
    assert conditions(world.value("deployments"))["Progressing"] == ("Unknown", "DeploymentPaused")
    world.edit("deployments", "d", paused=False)
    assert sizes(rolled_out(world)) == {"i:1": 0, "i:2": 5}


def test_a_deployment_scaled_in_its_rollout_keeps_the_proportions() -> None:
    world = rolled_out(deployed(10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}))
    world.edit("deployments", "d", template=template("i:2"))
    world.settle()
    assert sizes(world) == {"i:1": 8, "i:2": 5}
    world.edit("deployments", "d", replicas=15)
    world.step("deployments", "d")
    # The example of the reference documentation.
    assert sizes(world) == {"i:1": 11, "i:2": 7}


def test_a_rollout_without_progress_misses_its_deadline_and_recovers() -> None:
    world = deployed(progressDeadlineSeconds=10)
    assert world.again_s["deployments", "d"] == 10
    world.sleep(10)
    world.settle()
    assert conditions(world.value("deployments"))["Progressing"] == ("False", "ProgressDeadlineExceeded")
    rolled_out(world)
    assert conditions(world.value("deployments"))["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_the_history_is_limited() -> None:
    world = rolled_out(deployed(revisionHistoryLimit=2))
    for number in range(2, 7):
        world.edit("deployments", "d", template=template(f"i:{number}"))
        rolled_out(world)
    assert sorted(sizes(world)) == ["i:4", "i:5", "i:6"]


def test_min_ready_seconds_delay_the_rollout() -> None:
    world = deployed(1, minReadySeconds=30)
    [name] = world.pods
    world.ready(name)
    world.settle()
    assert world.value("deployments")["status"].get("availableReplicas") is None
    [key] = [each for each in world.objects if each[0] == "replicasets"]
    assert world.again_s[key] == 30
    world.sleep(30)
    world.settle()
    assert world.value("deployments")["status"]["availableReplicas"] == 1


def test_pods_that_cannot_be_made_are_told() -> None:
    world = World()
    world.refusal = "there is no room"
    spec = {"replicas": 2, "selector": SELECTOR, "template": template("i:1")}
    world.create("deployments", {"metadata": {"name": "d"}, "spec": spec})
    world.settle()
    [failure] = [
        each for each in world.value("deployments")["status"]["conditions"] if each["type"] == "ReplicaFailure"
    ]
    assert (failure["reason"], failure["message"]) == ("FailedCreate", "there is no room")
    world.refusal = ""
    rolled_out(world)
    assert "ReplicaFailure" not in conditions(world.value("deployments"))


def test_a_failed_pod_is_replaced_later_and_later() -> None:
    world = rolled_out(deployed(1))
    waits = []
    for _ in range(5):
        [live] = world.active()
        world.end(live.name, PodPhase.FAILED)
        world.settle()
        assert world.active() == []
        [key] = [each for each in world.objects if each[0] == "replicasets"]
        waits.append(world.again_s[key])
        world.sleep(world.again_s[key] or 0)
        world.settle()
    assert waits == [1, 2, 4, 8, 16]


def test_pods_are_adopted_and_released_by_their_labels() -> None:
    world = rolled_out(deployed(2))
    [first, second] = list(world.pods)
    world.change(first, labels={"app": "other"})
    world.settle()
    assert world.pods[first].owners == ()
    assert len(world.pods) == 3
    world.change(first, labels=world.pods[second].labels)
    world.settle()
    assert sum(each.is_deleting for each in world.pods.values()) == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_sequence_converges_within_its_bounds(data: st.DataObject) -> None:
    surge = data.draw(st.sampled_from([0, 1, 2, "25%", "100%"]))
    unavailable = data.draw(st.sampled_from([1, 2, "50%"] if surge == 0 else [0, 1, "25%"]))
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    world = deployed(data.draw(st.integers(0, 5)), strategy={"rollingUpdate": rolling})
    for _ in range(data.draw(st.integers(0, 25))):
        _happen(data, world)
    world.edit("deployments", "d", paused=False)
    world.sleep(3600)
    rolled_out(world)
    value = world.value("deployments")
    wanted = value["spec"]["replicas"]
    image = value["spec"]["template"]["spec"]["containers"][0]["image"]
    assert {name: size for name, size in sizes(world).items() if size} == ({image: wanted} if wanted else {})
    assert len(world.active()) == len(world.available()) == wanted
    assert conditions(value)["Progressing"][1] == "NewReplicaSetAvailable"


def _happen(data: st.DataObject, world: World) -> None:
    """Let one thing happen, then have each controller take a step, and hold it to its bounds."""
    kinds = ["template", "scale", "ready", "all ready", "all stop", "unready", "fail", "stop", "pause", "time"]
    kind = data.draw(st.sampled_from(kinds))
    pods = sorted(world.pods)
    match kind:
        case "template":
            world.edit("deployments", "d", template=template(f"i:{data.draw(st.integers(1, 3))}"))
        case "scale":
            world.edit("deployments", "d", replicas=data.draw(st.integers(0, 5)))
        case "pause":
            world.edit("deployments", "d", paused=data.draw(st.booleans()))
        case "time":
            world.sleep(data.draw(st.integers(1, 700)))
        case "all ready":
            for each in world.active():
                world.ready(each.name)
        case "all stop":
            for each in [each for each in world.pods.values() if each.is_deleting]:
                world.stop(each.name)
        case _ if pods:
            name = data.draw(st.sampled_from(pods))
            pod = world.pods[name]
            if kind == "ready" and pod.is_active:
                world.ready(name)
            elif kind == "unready":
                world.change(name, ready_since=None)
            elif kind == "fail" and not pod.is_over:
                world.end(name, PodPhase.FAILED)
            elif kind == "stop" and pod.is_deleting:
                world.stop(name)
    for plural in ("replicasets", "deployments", "replicasets"):
        for each in world.of(plural):
            before, available = len(world.active()), len(world.available())
            world.step(plural, each["metadata"]["name"])
            seen = SeenDeployment(world.value("deployments"))
            if len(world.active()) > before:
                assert len(world.active()) <= seen.replicas + seen.max_surge
            if len(world.available()) < available:
                assert len(world.available()) >= seen.replicas - seen.max_unavailable
