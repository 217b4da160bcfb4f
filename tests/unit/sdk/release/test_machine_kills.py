"""A SIGKILL before each effect that a plugin has, one after the other: found by counting, none left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.unit.sdk.release.machine_node import Node
from tests.unit.sdk.release.machine_plugin import Fate
from tests.unit.sdk.release.machine_pods import Container, Kind

Story = Callable[[Node], Fate]
"""Begins a node's life up to where a kill may come; returns the fate of the process that it may hit."""


def _used(node: Node) -> None:
    """All devices were in use; the kubelet has not noticed yet that they are no more."""
    node.loop.run_for(0.1)
    pods = [node.admit(Container("x", Kind.APP, 2)) for _ in range(2)]
    node.loop.run_for(25)
    for pod in pods:
        node.end_pod(pod)


def first_allocate(node: Node) -> Fate:
    node.loop.run_for(0.1)
    fate = node.kill_at(None)
    node.admit(Container("x", Kind.APP, 2))
    return fate


def allocate_after_an_end(node: Node) -> Fate:
    _used(node)
    fate = node.kill_at(None)
    node.admit(Container("x", Kind.APP, 3))
    return fate


def init_container_sidecar_and_starts(node: Node) -> Fate:
    node.loop.run_for(0.1)
    fate = node.kill_at(None)
    pod = node.admit(
        Container("init", Kind.INIT, 2), Container("sidecar", Kind.SIDECAR, 1), Container("x", Kind.APP, 2)
    )
    for delay_s in (1, 2, 3, 4):
        node.loop.call_later(delay_s, node.create_container, pod)
    node.loop.call_later(5, node.end_pod, pod)
    return fate


def background_look(node: Node) -> Fate:
    _used(node)
    fate = node.kill_at(None)
    node.look()
    return fate


def release_that_fails_twice(node: Node) -> Fate:
    node.conduct.fails = 2
    return background_look(node)


def journal_that_becomes_long(node: Node) -> Fate:
    node.loop.run_for(0.1)
    fate = node.kill_at(None)
    for start_s in (0, 15, 30, 45):
        node.loop.call_later(start_s, _come_and_go, node)
    return fate


def _come_and_go(node: Node) -> None:
    node.loop.call_later(10, node.end_pod, node.admit(Container("x", Kind.APP, 3)))


def start_after_a_kill(node: Node) -> Fate:
    _used(node)
    node.admit(Container("x", Kind.APP, 2))
    node.conduct.allocate_s = 1.0
    node.loop.run_for(0.5)
    node.kill_at(0)
    node.look()
    node.conduct.allocate_s = 0.0
    return node.next_fate


def start_without_a_journal(node: Node) -> Fate:
    _used(node)
    journal = node.process.release.ledger.path
    node.stop_plugin()
    journal.unlink()
    return node.next_fate


def start_after_a_reboot(node: Node) -> Fate:
    _used(node)
    node.admit(Container("x", Kind.APP, 1))
    node.loop.run_for(5)
    fate = node.next_fate
    node.reboot()
    return fate


def kubelet_that_restarts(node: Node) -> Fate:
    _used(node)
    fate = node.kill_at(None)
    node.restart_kubelet()
    node.kubelet.is_ready = True
    node.loop.call_later(90, node.admit, Container("x", Kind.APP, 1))
    return fate


STORIES = [
    (first_allocate, {"append", "allocate", "answer Allocate", "fsync"}),
    (allocate_after_an_end, {"read", "send the list again", "release", "have released", "answer Allocate"}),
    (init_container_sidecar_and_starts, {"pre-start", "post-stop", "answer PreStartContainer", "list pods"}),
    (background_look, {"list pods", "read", "send the list again", "release", "have released", "fsync"}),
    (release_that_fails_twice, {"release", "have released"}),
    (journal_that_becomes_long, {"rewrite the journal", "replace the journal", "have rewritten the journal"}),
    (start_after_a_kill, {"open the journal", "rewrite the journal", "release", "append"}),
    (start_without_a_journal, {"open the journal", "rewrite the journal", "append", "release"}),
    (start_after_a_reboot, {"open the journal", "rewrite the journal", "release", "append"}),
    (kubelet_that_restarts, {"append", "read", "release", "answer Allocate"}),
]


def _told(story: Story, *, kill: int | None = None, tears: bool = False) -> tuple[list[str], bool]:
    """Which effects there were, and whether the process was killed; in the end all is as it must be."""
    random.seed(0)  # when a look is due has a jitter
    with closing(Node(hears_stops=story is init_container_sidecar_and_starts, sees_pods=False)) as node:
        fate = story(node)
        fate.left, fate.tears = kill, tears
        node.loop.run_for(95)
        seen = list(fate.seen)
        node.finish()
        return seen, fate.is_dead


@pytest.mark.parametrize(("story", "known"), [pytest.param(*each, id=each[0].__name__) for each in STORIES])
@pytest.mark.parametrize("tears", [pytest.param(False, id="between"), pytest.param(True, id="torn")])
def test_kill_before_each_effect(story: Story, known: set[str], tears: bool) -> None:
    effects, _ = _told(story)
    assert known <= set(effects)
    for number, name in enumerate(effects):
        if not tears or name == "append":
            assert _told(story, kill=number, tears=tears) == (effects[:number], True), f"{number}: {name}"
