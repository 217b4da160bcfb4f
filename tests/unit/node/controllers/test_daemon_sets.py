"""DaemonSets, step by step."""

from __future__ import annotations

from typing import Any

from plugbay.pods.status import PodPhase
from tests.unit.node.controllers.world import World, template

SELECTOR = {"matchLabels": {"app": "a"}}


def daemon(**spec: Any) -> World:
    world = World()
    world.runs_here = spec.pop("runs_here", True)
    spec = {"selector": SELECTOR, "template": template("i:1"), **spec}
    world.create("daemonsets", {"metadata": {"name": "d"}, "spec": spec})
    world.settle()
    return world


def status(world: World) -> Any:
    return world.value("daemonsets")["status"]


def image(world: World, name: str) -> str:
    spec: Any = world.specs[name]
    return str(spec["containers"][0]["image"])


def test_a_daemon_set_has_one_pod_that_tolerates_the_state_of_the_node() -> None:
    world = daemon()
    [pod] = world.active()
    spec: Any = world.specs[pod.name]
    assert {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"} in spec[
        "tolerations"
    ]
    assert pod.labels["pod-template-generation"] == "1"
    [revision] = world.of("controllerrevisions")
    assert revision["metadata"]["labels"]["controller-revision-hash"] == pod.labels["controller-revision-hash"]
    world.ready(pod.name)
    world.settle()
    assert status(world) == {
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "numberAvailable": 1,
        "observedGeneration": 1,
    }


def test_a_rolling_update_stops_the_old_pod_first_or_makes_the_new_one_first() -> None:
    for rolling, at_most in (({"maxUnavailable": 1}, 1), ({"maxUnavailable": 0, "maxSurge": 1}, 2)):
        world = daemon(updateStrategy={"rollingUpdate": rolling})
        [old] = world.active()
        world.ready(old.name)
        world.settle()
        world.edit("daemonsets", "d", template=template("i:2"))
        world.settle()
        assert len(world.active()) == at_most - (at_most == 1)
        if at_most == 1:
            world.stop(old.name)
            world.settle()
        else:
            [new] = [each for each in world.active() if each.name != old.name]
            world.ready(new.name)
            world.settle()
            assert world.pods[old.name].is_deleting
            world.stop(old.name)
        [new] = world.active()
        assert image(world, new.name) == "i:2"
        assert [each["revision"] for each in world.of("controllerrevisions")] == [1, 2]


def test_a_rollback_gives_the_old_revision_a_new_number() -> None:
    world = daemon()
    world.edit("daemonsets", "d", template=template("i:2"))
    world.settle()
    world.edit("daemonsets", "d", template=template("i:1"))
    world.settle()
    assert sorted(each["revision"] for each in world.of("controllerrevisions")) == [2, 3]


def test_with_on_delete_only_a_deleted_pod_is_replaced() -> None:
    world = daemon(updateStrategy={"type": "OnDelete"})
    [old] = world.active()
    world.ready(old.name)
    world.edit("daemonsets", "d", template=template("i:2"))
    world.settle()
    assert world.active()[0].name == old.name
    assert status(world).get("updatedNumberScheduled") is None
    world.change(old.name, is_deleting=True)
    world.stop(old.name)
    world.settle()
    assert image(world, world.active()[0].name) == "i:2"


def test_a_failed_pod_is_deleted_and_made_again_later_and_later() -> None:
    world = daemon()
    waits = []
    for _ in range(4):
        [pod] = world.active()
        world.end(pod.name, PodPhase.FAILED)
        world.settle()
        wait_s = world.again_s["daemonsets", "d"]
        waits.append(wait_s)
        if wait_s:
            assert pod.name in world.pods
            world.sleep(wait_s)
            world.settle()
        assert pod.name not in world.pods
    assert waits == [None, 1, 2, 4]
    assert world.told == ["FailedDaemonPod"] * 4


def test_a_node_that_is_none_for_it_has_no_pod() -> None:
    world = daemon(runs_here=False)
    assert (world.pods, status(world)["desiredNumberScheduled"]) == ({}, 0)
    world.runs_here = True
    world.settle()
    [pod] = world.active()
    world.runs_here = False
    world.settle()
    assert (world.pods[pod.name].is_deleting, status(world)["desiredNumberScheduled"]) == (True, 0)
