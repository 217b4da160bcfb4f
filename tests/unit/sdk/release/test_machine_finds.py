"""What the machine has found, one plain story each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.unit.sdk.release.machine_kubelet import OTHER, Spoiled
from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind, Pod


@pytest.fixture
def node() -> Iterator[Node]:
    """Of a plugin that does not see the kubelet's directories of pods."""
    made = Node(sees_pods=False)
    made.loop.run_for(0.1)
    yield made
    made.close()


def test_user_that_ended_before_the_first_look_after_a_lost_journal(node: Node) -> None:
    """What a checkpoint lists at the start of a plugin its kubelet knows; not being listed later is the end."""
    pod = node.admit(Container("x", Kind.APP, 1))
    node.loop.run_for(1)
    journal = node.process.release.ledger.path
    node.stop_plugin()
    journal.unlink()
    node.loop.run_for(0.0005)  # it has started, and was not asked for its list yet
    node.end_pod(pod)
    node.kubelet.clean()
    node.kubelet.spawn(node.kubelet.list_arrives(OTHER))
    node.loop.run_for(100)
    node.check()
    assert not node.process.release.ledger.uses()
    assert not node.truth.dirty


def test_checkpoint_that_survives_a_restart_tells_nothing_of_those_lost_before(node: Node) -> None:
    """The kubelet without one has written a file that lacks them, and the next begins with that."""
    pod = node.admit(Container("x", Kind.APP, 1))
    node.loop.run_for(40)
    for is_lost in (True, False):
        node.restart_kubelet(is_lost=is_lost)
        node.kubelet.is_ready = True
        node.loop.run_for(100)
    assert pod.runs
    assert node.process.release.ledger.uses()
    node.finish()


def test_look_that_waited_for_an_allocate_waits_until_the_kubelet_has_stored_it(node: Node) -> None:
    """A kubelet that cleans up before forgets what it has asked for, and gives it to the next pod too (spec 4.9.2)."""
    _, ending = node.admit(Container("x", Kind.APP, 2)), node.admit(Container("x", Kind.APP, 1))
    node.loop.run_for(20)
    node.conduct.allocate_s = 0.01
    fresh = node.admit(Container("x", Kind.APP, 1))
    node.loop.run_for(0.005)
    node.end_pod(ending)
    node.look()
    node.loop.run_for(5)
    greedy = node.admit(Container("x", Kind.APP, 2))
    node.loop.run_for(5)
    node.check()
    assert fresh.units == {"c"}
    assert not greedy.units


@pytest.mark.parametrize("hears_stops", [False, True])
def test_device_that_the_lazy_gave_twice_is_released_once_when_both_users_are_gone(hears_stops: bool) -> None:
    """A kubelet without its checkpoint takes for free what a pod that it knows nothing of still uses."""
    with closing(Node(is_strict=False, hears_stops=hears_stops)) as node:
        node.loop.run_for(0.1)
        first = node.admit(Container("x", Kind.APP, 4))
        node.loop.run_for(1)
        node.create_container(first)
        node.loop.run_for(40)
        node.restart_kubelet(is_lost=True)
        node.kubelet.is_ready = True
        node.loop.run_for(5)
        second = node.admit(Container("x", Kind.APP, 4))
        node.loop.run_for(100)
        assert first.units == second.units
        for _ in range(2):
            node.create_container(second)
            node.loop.run_for(5)
        assert "post-stop" not in node.process.fate.seen
        node.stop_plugin()
        node.end_pod(second)
        node.loop.run_for(100)
        assert first.runs
        assert node.truth.dirty
        [left] = node.process.release.ledger.uses()
        assert left.is_overtaken
        assert "release" not in node.process.fate.seen
        node.end_pod(first)
        node.loop.run_for(60)
        assert node.process.fate.seen.count("release") == 1
        node.finish()
        assert not node.process.release.ledger.uses()


def test_uses_that_checkpoints_never_tell_of_do_not_pile_up() -> None:
    """Each of them could be proven over by nothing but what proves that of the others."""
    with closing(Node(is_strict=False, sees_pods=False)) as node:
        node.loop.run_for(0.1)
        for _ in range(6):
            node.kubelet.spoiled.extend([Spoiled.CORRUPT] * 9)
            pod = node.admit(Container("x", Kind.APP, 4))
            node.loop.run_for(3)
            node.end_pod(pod)
            node.kubelet.spoiled.clear()
        assert len(node.process.release.ledger.uses()) == 2
        node.finish()
        assert not node.process.release.ledger.uses()


def test_container_that_starts_while_another_share_is_given_is_post_stopped() -> None:
    """The Allocate of the other share looks whether this one is in use, and has to wait for that."""
    with closing(Node(hears_stops=True)) as node:
        node.loop.run_for(0.1)
        pod = node.admit(Container("x", Kind.APP, 1))
        node.loop.run_for(10)
        node.paces.extend([0.0, 0.5, 1.0])
        node.admit(Container("x", Kind.APP, 1))
        node.loop.run_for(0.2)
        node.create_container(pod)
        node.loop.run_for(10)
        node.create_container(pod)
        node.loop.run_for(10)
        node.finish()


def test_container_with_a_device_that_the_next_user_was_refused_is_post_stopped() -> None:
    """The lazy had given it up for the next one, and the kubelet takes it for free."""
    with closing(Node(is_strict=False, hears_stops=True, sees_pods=False)) as node:
        node.loop.run_for(0.1)
        pod = node.admit(Container("x", Kind.APP, 4))
        node.loop.run_for(1)
        node.restart_kubelet(is_lost=True)
        node.kubelet.is_ready = True
        node.loop.run_for(5)
        node.conduct.refuses = True
        node.admit(Container("x", Kind.APP, 4))
        node.loop.run_for(5)
        [use] = node.process.release.ledger.uses()
        assert use.is_overtaken
        for stops in (0, 1):
            node.create_container(pod)
            node.loop.run_for(5)
            assert node.process.fate.seen.count("post-stop") == stops
        node.finish()


@pytest.fixture
def lazy() -> Iterator[Node]:
    """Of a plugin that gives devices as they are."""
    with closing(Node(is_strict=False, sees_pods=False)) as made:
        made.loop.run_for(0.1)
        yield made


def test_device_given_after_a_failed_release_is_released_when_its_allocate_is_refused(lazy: Node) -> None:
    """Nobody has it then, and it is as dirty as before."""
    pod = lazy.admit(Container("x", Kind.APP, 4))
    lazy.loop.run_for(20)
    lazy.end_pod(pod)
    lazy.conduct.fails, lazy.conduct.refuses = 1, True
    refused = lazy.admit(Container("x", Kind.APP, 3))
    lazy.loop.run_for(60)
    assert refused.units == set()
    assert not lazy.truth.dirty
    lazy.finish()


def test_release_that_failed_is_tried_again_when_the_next_one_takes_too_long(lazy: Node) -> None:
    """The Allocate that wants both devices is refused, and has given neither."""
    pods = [lazy.admit(Container("x", Kind.APP, 2)) for _ in range(2)]
    lazy.loop.run_for(20)
    for pod in pods:
        lazy.end_pod(pod)
    lazy.conduct.release_s, lazy.conduct.fails = 0.5, 1
    refused = lazy.admit(Container("x", Kind.APP, 4))
    lazy.loop.run_for(0.2)
    lazy.conduct.release_s = 70.0
    lazy.loop.run_for(150)
    assert refused.units == set()
    assert not lazy.truth.dirty
    lazy.finish()


def test_device_whose_release_is_to_come_is_given_only_if_that_can_be_written_down(lazy: Node) -> None:
    """The next process, which knows of the release and not of the pod, would clean it in use."""
    pod = lazy.admit(Container("x", Kind.APP, 4))
    lazy.loop.run_for(20)
    lazy.end_pod(pod)
    lazy.conduct.fails = 9
    lazy.look()
    lazy.loop.run_for(5)
    lazy.disk.is_full = True
    refused = lazy.admit(Container("x", Kind.APP, 4))
    lazy.loop.run_for(5)
    lazy.stop_plugin()
    lazy.conduct.fails, lazy.disk.is_full = 0, False
    lazy.loop.run_for(5)
    assert refused.units == set()
    lazy.finish()


def test_allocate_that_cannot_be_written_down_as_answered_is_refused(lazy: Node) -> None:
    """Else it would count as given up, and the device be cleaned in use."""
    lazy.conduct.allocate_s = 1.0
    refused = lazy.admit(Container("x", Kind.APP, 1))
    lazy.loop.run_for(0.5)
    lazy.disk.is_full = True
    lazy.loop.run_for(5)
    lazy.disk.is_full = False
    lazy.loop.run_for(60)
    assert refused.units == set()
    assert not lazy.truth.dirty
    lazy.finish()


def start_next(node: Node, pod: Pod) -> None:
    """Have the next container of ``pod`` created, as often as it takes: a kubelet tries again."""
    for _ in range(60):
        before = [(each.runs, each.has_ended) for each in pod.containers]
        node.create_container(pod)
        node.loop.run_for(20)
        if [(each.runs, each.has_ended) for each in pod.containers] != before:
            return
    raise AssertionError("it never starts")


@pytest.fixture
def lazy_hearer() -> Iterator[Node]:
    """Of a lazy plugin with post_stop()."""
    with closing(Node(is_strict=False, hears_stops=True)) as made:
        made.loop.run_for(0.1)
        yield made


@pytest.mark.parametrize("kind", [Spoiled.STALLED, Spoiled.TORN, Spoiled.CORRUPT])
def test_init_container_is_post_stopped_though_no_checkpoint_came_when_the_pod_was_admitted(
    lazy_hearer: Node, kind: Spoiled
) -> None:
    """On a loaded machine. The lazy take the app container for another pod's then, and ask again when it starts."""
    node = lazy_hearer
    node.kubelet.spoiled.extend([kind] * 9)
    pod = node.admit(Container("init", Kind.INIT, 1), Container("x", Kind.APP, 1))
    node.loop.run_for(30)
    node.kubelet.spoiled.clear()
    assert [use.is_overtaken for use in node.process.release.ledger.uses()].count(True) == 1
    start_next(node, pod)
    assert "post-stop" not in node.process.fate.seen
    start_next(node, pod)
    assert node.process.fate.seen.count("post-stop") == 1
    node.finish()


def test_container_does_not_start_before_a_checkpoint_tells_that_its_devices_are_nobody_elses(
    lazy_hearer: Node,
) -> None:
    """What the last container of its pod has left must not be there, and nothing of others' must be touched."""
    node = lazy_hearer
    node.kubelet.spoiled.extend([Spoiled.TORN] * 9)
    pod = node.admit(Container("init", Kind.INIT, 1), Container("x", Kind.APP, 1))
    node.loop.run_for(8)
    start_next(node, pod)
    node.kubelet.spoiled.extend([Spoiled.TORN] * 99)
    for _ in range(3):
        node.create_container(pod)
        node.loop.run_for(5)
    assert not pod.containers[1].runs
    node.kubelet.spoiled.clear()
    start_next(node, pod)
    assert node.process.fate.seen.count("post-stop") == 1
    node.finish()


@pytest.mark.parametrize("has_store", [True, False])
def test_pod_that_ended_while_kubelet_and_plugin_were_killed(has_store: bool) -> None:
    """A kubelet that has written its checkpoint before the plugin is back tells nothing, unless it names its store."""
    with closing(Node(sees_pods=False, has_store=has_store)) as node:
        node.loop.run_for(0.1)
        pod = node.admit(Container("x", Kind.APP, 4))
        node.loop.run_for(1)
        node.downtime_s = 20.0
        node.kill_at(0)
        node.look()
        node.loop.run_for(1)
        node.restart_kubelet()
        node.kubelet.is_ready = True
        node.end_pod(pod)
        node.kubelet.clean()
        node.kubelet.spawn(node.kubelet.list_arrives(OTHER))
        node.loop.run_for(150)
        assert bool(node.truth.dirty) is not has_store
        node.finish()
