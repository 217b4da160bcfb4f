"""The same machine where the disk of the plugin's journal is full at times, and what it has found, one story each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from plugbay.sdk.release.uses import GRACE_S, SETTLE_S
from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_pods import Container, Kind
from tests.unit.sdk.release.test_machine import ReleaseMachine


class DiskMachine(ReleaseMachine):
    @rule(is_full=st.booleans())
    def disk(self, is_full: bool) -> None:
        self.node.disk.is_full = is_full


class LazyDiskMachine(DiskMachine):
    is_strict = False


pytestmark = pytest.mark.timeout(120 + settings().max_examples)  # shrinking what fails takes longer than finding it

TestStrictDisk = DiskMachine.TestCase
TestStrictDisk.settings = settings(max_examples=settings().max_examples * 2 // 5, stateful_step_count=30)
TestLazyDisk = LazyDiskMachine.TestCase
TestLazyDisk.settings = settings(max_examples=settings().max_examples * 2 // 5, stateful_step_count=30)


@pytest.fixture
def lazy() -> Iterator[Node]:
    """Of a plugin that gives devices as they are, and hears of stops."""
    with closing(Node(is_strict=False, hears_stops=True, sees_pods=False)) as made:
        made.loop.run_for(0.1)
        yield made


def test_device_is_given_only_if_that_can_be_written_down(lazy: Node) -> None:
    """The plugin would not know of it, and release the device with the other share of it."""
    lazy.disk.is_full = True
    refused = lazy.admit(Container("x", Kind.APP, 1))
    lazy.loop.run_for(5)
    lazy.disk.is_full = False
    assert refused.units == set()
    given = lazy.admit(Container("x", Kind.APP, 1))
    lazy.loop.run_for(5)
    assert given.units == {"a::0"}
    lazy.finish()


def test_container_starts_only_if_that_can_be_written_down(lazy: Node) -> None:
    """Else its devices would be released, and `post_stop` not be called before."""
    pod = lazy.admit(Container("x", Kind.APP, 1))
    lazy.loop.run_for(5)
    lazy.disk.is_full = True
    lazy.create_container(pod)
    lazy.loop.run_for(5)
    assert not pod.containers[0].runs
    lazy.disk.is_full = False
    lazy.create_container(pod)
    lazy.loop.run_for(5)
    assert pod.containers[0].runs
    lazy.stop_plugin()
    lazy.loop.run_for(5)
    lazy.finish()


def test_life_of_a_kubelet_is_written_down_once_there_is_room() -> None:
    """Or what it gives later would look as if it came from the life before, and never be over."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        node.disk.is_full = True
        node.restart_kubelet(is_lost=True)
        node.kubelet.is_ready = True
        node.loop.run_for(5)
        node.disk.is_full = False
        pod = node.admit(Container("x", Kind.APP, 1))
        node.loop.run_for(0.5)
        node.stop_plugin()
        node.end_pod(pod)
        node.loop.run_for(SETTLE_S + GRACE_S + 60)
        assert not node.process.release.ledger.uses()
        assert not node.truth.dirty


def test_life_of_a_kubelet_that_was_met_on_a_full_disk_survives_the_plugin() -> None:
    """What that life has begun with is known to nobody else."""
    with closing(Node(sees_pods=False)) as node:
        node.loop.run_for(0.1)
        pod = node.admit(Container("x", Kind.APP, 1))
        node.loop.run_for(40)
        node.disk.is_full = True
        node.restart_kubelet()
        node.kubelet.is_ready = True
        node.end_pod(pod)
        node.loop.run_for(5)
        node.disk.is_full = False
        node.look()
        node.loop.run_for(5)
        node.stop_plugin()
        node.loop.run_for(SETTLE_S + GRACE_S + 60)
        assert not node.process.release.ledger.uses()
        assert not node.truth.dirty
