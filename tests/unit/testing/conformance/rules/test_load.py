"""Amounts grow with restarts or they do not; idle plugins are idle."""

from __future__ import annotations

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rules.load import parallel, usage
from plugbay.testing.conformance.rules.load.parallel import Beside, CrowdSeen, ParallelSeen
from plugbay.testing.conformance.rules.load.usage import IdleSeen, RestartsSeen
from plugbay.testing.conformance.subject.usage import ResourceUsage

ONE = ResourceUsage(descriptors=10, threads=4, processes=1, rss_bytes=30_000_000)
ANSWERED = CallSeen(PluginOptions(), None, 0.01)
LATE = CallSeen(PluginOptions(), None, 0.4)
FAILED: CallSeen[PluginOptions] = CallSeen(None, RpcFailed(RpcCode.DEADLINE_EXCEEDED, "late"), 3.0)


def restarts(after: ResourceUsage, *, counted: int = 70, done: int = 100, has_ended: bool = False) -> RestartsSeen:
    return RestartsSeen(done, 100, counted, ONE, after, has_ended, waited_s=5)


def test_what_grows_with_each_restart_is_a_leak() -> None:
    grown = restarts(ResourceUsage(descriptors=80, threads=74, processes=1, rss_bytes=60_000_000))
    for rule in (usage.leaks_no_descriptors, usage.leaks_no_threads, usage.leaks_no_memory):
        assert len(list(rule.judge(grown))) == 1


def test_what_grows_a_little_is_none() -> None:
    warmed = restarts(ResourceUsage(descriptors=14, threads=10, processes=1, rss_bytes=36_000_000))
    for rule in (usage.leaks_no_descriptors, usage.leaks_no_threads, usage.leaks_no_memory, usage.leaks_no_processes):
        assert list(rule.judge(warmed)) == []


def test_children_left_behind_are_one_finding_not_four() -> None:
    crowd = restarts(ResourceUsage(descriptors=220, threads=74, processes=71, rss_bytes=90_000_000))
    assert list(usage.leaks_no_processes.judge(crowd)) == ["processes: 1, after 70 restarts 71"]
    for rule in (usage.leaks_no_descriptors, usage.leaks_no_threads, usage.leaks_no_memory):
        with pytest.raises(NotApplicable, match="PB812"):
            list(rule.judge(crowd))


def test_few_restarts_tell_nothing() -> None:
    with pytest.raises(NotApplicable, match="too few"):
        list(usage.leaks_no_descriptors.judge(restarts(ONE, counted=4, done=4)))
    with pytest.raises(NotApplicable, match="PB706"):
        list(usage.leaks_no_descriptors.judge(restarts(ONE, has_ended=True)))


def test_a_plugin_that_is_not_back_from_a_later_restart_is_found() -> None:
    assert list(usage.lasts.judge(restarts(ONE, done=41))) == [
        "after 41 restarts of the kubelet the plugin did not come back within 5 s"
    ]
    with pytest.raises(NotApplicable, match="PB702"):
        list(usage.lasts.judge(restarts(ONE, done=0)))


def test_an_idle_plugin_does_nothing_much() -> None:
    quiet, busy = IdleSeen(cpu=0.01, wakeups=20, printed=10), IdleSeen(cpu=1.0, wakeups=900, printed=1e6)
    for rule in (usage.is_idle, usage.sleeps, usage.is_quiet):
        assert list(rule.judge(quiet)) == []
        assert len(list(rule.judge(busy))) == 1


def test_a_call_waits_for_another_if_it_takes_as_long() -> None:
    slow: CallSeen[tuple[ContainerEdits, ...]] = CallSeen((), None, 0.5)
    quick: CallSeen[tuple[ContainerEdits, ...]] = CallSeen((), None, 0.01)
    assert list(parallel.holds_up_nothing.judge(ParallelSeen("a", slow, (), Beside(ANSWERED, 0.45)))) == []
    assert list(parallel.holds_up_nothing.judge(ParallelSeen("a", slow, (), Beside(LATE, 0.9)))) == []
    assert list(parallel.holds_up_nothing.judge(ParallelSeen("a", slow, (), Beside(LATE, 0.45)))) == [
        "GetDevicePluginOptions took 400 ms during an Allocate that was over after 450 ms"
    ]
    with pytest.raises(NotApplicable, match="too little"):
        list(parallel.holds_up_nothing.judge(ParallelSeen("a", quick, (), None)))


def test_streams_and_a_deaf_kubelet_are_told_apart() -> None:
    pool = CrowdSeen((True, True), FAILED, FAILED, list_with_deaf=False)
    assert len(list(parallel.answers_beside_streams.judge(pool))) == 1
    with pytest.raises(NotApplicable, match="PB802"):
        list(parallel.outlives_silence.judge(pool))
    locked = CrowdSeen((True, True), ANSWERED, FAILED, list_with_deaf=False)
    assert list(parallel.answers_beside_streams.judge(locked)) == []
    assert len(list(parallel.outlives_silence.judge(locked))) == 1
