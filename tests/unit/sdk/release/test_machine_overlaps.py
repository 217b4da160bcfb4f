"""An Allocate at each step of a background look, and a look at each step of an Allocate."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from plugbay.sdk.release.uses import GRACE_S
from tests.unit.sdk.release.machine_kubelet import OTHER
from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind, Pod

MOMENTS = range(0, 16)
"""Of a look or an Allocate that has to wait for a checkpoint; each has some steps."""
STEPS = (0, 2, 5)


def app(wants: int) -> Container:
    return Container("x", Kind.APP, wants)


@contextmanager
def three_pods() -> Iterator[tuple[Node, list[Pod]]]:
    """They share no device, were given them some time ago, and nobody looked since. In the end all is as it must be."""
    random.seed(0)  # when a look is due has a jitter
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        pods = [node.admit(app(wants)) for wants in (2, 1, 1)]
        node.loop.run_for(20)
        yield node, pods
        node.loop.run_for(60)
        node.finish()


@pytest.mark.parametrize("steps", STEPS)
def test_allocate_comes_at_each_step_of_a_look(steps: int) -> None:
    looked = False
    for moments in MOMENTS:
        with three_pods() as (node, pods):
            seen = node.process.fate.seen
            before = len(seen)
            node.end_pod(pods[1])
            node.look()
            node.loop.run_moments(moments)
            node.loop.run_steps(steps)
            looked |= "release" in seen[before:]
            node.admit(app(1))
            node.end_pod(pods[2], after_s=0.002)
            node.loop.run_for(5)
            node.end_pod(pods[0])
            node.admit(app(2))
            node.admit(app(1))
    assert looked, "the look was not over at the last step"


@pytest.mark.parametrize("steps", STEPS)
def test_look_comes_at_each_step_of_an_allocate(steps: int) -> None:
    """Whose pod is gone is cleaned up then; what the Allocate is for must not get lost."""
    was_answered = False
    for moments in MOMENTS:
        with three_pods() as (node, pods):
            seen = node.process.fate.seen
            before = len(seen)
            node.end_pod(pods[0])
            node.conduct.allocate_s = 0.01
            node.admit(app(2))
            node.loop.run_moments(moments)
            node.loop.run_steps(steps)
            was_answered |= "answer Allocate" in seen[before:]
            node.end_pod(pods[1])
            node.look()
            node.loop.run_for(5)
            node.admit(app(1))
            node.admit(app(1))
    assert was_answered, "the Allocate was not over at the last step"


def test_overtaken_writer_of_a_checkpoint_ends_nothing() -> None:
    """Its snapshot is from before a pod that an earlier reading has listed (spec 7.1)."""
    with closing(Node(sees_pods=False, sees_cgroups=False)) as node:
        node.loop.run_for(0.1)
        node.paces.extend([0.0, 1.2])
        node.kubelet.spawn(node.kubelet.list_arrives(OTHER))
        node.loop.run_for(0.01)
        node.admit(app(1))
        node.loop.run_for(0.04)
        node.look()
        node.loop.run_for(1.1)
        (use,) = node.process.release.ledger.uses()
        assert use.seen_in
        node.paces.extend([0.0, 0.2])  # so that the late one comes before what the list brings about
        node.look()
        node.loop.run_for(0.2)
        (use,) = node.process.release.ledger.uses()
        assert use.absences == 1
        node.finish()


@pytest.mark.parametrize("late_ms", range(1196, 1204))
def test_overtaken_writer_of_a_checkpoint_ends_nothing_in_an_admission(late_ms: int) -> None:
    """Between the Allocates of one pod its snapshot comes, which is from before the pod."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.paces.extend([0.0, 1.2])
        node.kubelet.spawn(node.kubelet.list_arrives(OTHER))
        node.loop.run_for(0.001)
        node.paces.extend([0.001] * 6 + [late_ms / 1000 - 0.01])
        node.admit(Container("init", Kind.INIT, 1), Container("sidecar", Kind.SIDECAR, 1), app(1))
        node.loop.run_for(5)
        node.finish()


def test_kubelet_that_stores_an_allocate_late() -> None:
    """Nothing lists it yet when it is looked for."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.paces.extend([4.0])
        node.admit(app(1))
        node.loop.run_for(0.6)
        node.look()
        node.loop.run_for(3)
        assert node.process.release.evidence.outcomes["ok"] > 0
        node.finish()


def give_to_another(node: Node, ending: Pod, *, after_s: float, restarts: bool) -> None:
    """End a pod as soon as an Allocate is answered, and let another have its devices when the kubelet gives them."""
    assert node.process.fate.seen[-1] == "answer Allocate"
    node.end_pod(ending)
    if restarts:
        node.stop_plugin()
    node.look()
    node.loop.run_for(after_s)
    node.admit(app(3))
    node.loop.run_for(1)
    node.finish()


@pytest.mark.parametrize("stored_s", [0.001, 1.2, 6.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_kubelet_is_asked_for_its_pods_when_it_has_stored_what_it_was_answered(stored_s: float, restarts: bool) -> None:
    """Else it forgets that, and gives the device to the next pod too (spec 4.9.2): be it another process's answer."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        ending = node.admit(app(2))
        node.loop.run_for(20)
        node.paces.append(stored_s)
        node.admit(app(1))
        node.loop.run_moments(0)
        give_to_another(node, ending, after_s=5 + stored_s, restarts=restarts)


@pytest.mark.parametrize("stored_s", [1.2, 6.0])
@pytest.mark.parametrize("restarts", [False, True])
def test_grace_of_an_allocate_begins_with_its_answer(stored_s: float, restarts: bool) -> None:
    """It may have taken long."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        ending = node.admit(app(2))
        node.loop.run_for(20)
        node.conduct.allocate_s = GRACE_S + 2
        node.paces.append(stored_s)
        node.admit(app(1))
        node.loop.run_for(GRACE_S + 2.0005)
        give_to_another(node, ending, after_s=5 + stored_s, restarts=restarts)


def test_owner_of_a_container_that_starts_while_others_are_stored_is_found_soon() -> None:
    """Not at the next look that is due, half a minute later."""
    with closing(Node(hears_stops=True, sees_pods=False)) as node:
        node.loop.run_for(0.1)
        pod = node.admit(app(2))
        node.loop.run_for(0.01)
        node.paces.append(6.0)
        node.admit(app(1))
        node.loop.run_for(0.001)
        node.create_container(pod)
        node.loop.run_for(8)
        names = {owner.pod for use in node.process.release.ledger.uses() for owner in use.owners}
        assert pod.uid in names
        node.finish()


def test_kubelet_that_refuses_a_pod_which_still_runs() -> None:
    """It drops its devices at once, and stops it half a minute later (spec 4.7)."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.admit(app(1))
        node.loop.run_for(40)
        node.restart_kubelet(refuses=True)
        node.kubelet.is_ready = True
        node.loop.run_for(0.1)
        node.look()
        node.loop.run_for(5)
        assert not node.kubelet.assigned
        node.finish()


def test_kubelet_that_has_lost_its_checkpoint() -> None:
    """Pods that it knows nothing of run on."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.admit(app(1))
        node.loop.run_for(40)
        node.restart_kubelet(is_lost=True)
        node.kubelet.is_ready = True
        node.loop.run_for(100)
        assert node.process.release.ledger.uses()
        node.finish()


def test_kubelet_that_does_not_know_its_pods_yet() -> None:
    """It drops nothing before it does (spec 4.12), so its empty lists of pods say nothing."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.admit(app(1))
        node.loop.run_for(40)
        node.restart_kubelet()
        for _ in range(5):
            node.look()
            node.loop.run_for(20)
        [use] = node.process.release.ledger.uses()
        assert node.process.release.ledger.life is not None
        assert use.seen_in == node.process.release.ledger.life.id != use.life
        assert "release" not in node.process.fate.seen
        node.finish()


def test_shared_device_whose_users_are_all_gone_is_released_before_it_is_given() -> None:
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        pods = [node.admit(app(1)) for _ in range(2)]
        node.loop.run_for(20)
        for pod in pods:
            node.end_pod(pod)
        node.admit(app(1))
        node.loop.run_for(1)
        node.finish()


def test_all_is_released_at_once_after_a_reboot() -> None:
    """No kubelet has to tell."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.admit(app(4))
        node.loop.run_for(20)
        node.reboot()
        node.loop.run_for(1)
        assert not node.truth.dirty
        node.finish()
