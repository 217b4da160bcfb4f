"""What the machine has found, one plain story each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind


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
    journal = node.process.custody.book.path
    node.stop_plugin()
    journal.unlink()
    node.loop.run_for(0.0005)  # it has started, and was not asked for its list yet
    node.end_pod(pod)
    node.kubelet.clean()
    node.kubelet.spawn(node.kubelet.list_arrives())
    node.loop.run_for(100)
    node.check()
    assert not node.process.custody.book.uses()
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
    assert node.process.custody.book.uses()
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
