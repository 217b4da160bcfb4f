"""One way to end, or to miss a kubelet, is one finding."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rules import hooks
from plugbay.testing.conformance.rules.hooks import HookSeen, HooksSeen
from plugbay.testing.conformance.rules.life import ending, instances
from plugbay.testing.conformance.rules.life.ending import EndSeen
from plugbay.testing.conformance.rules.life.instances import PairSeen
from plugbay.testing.conformance.rules.restarts import manners
from plugbay.testing.conformance.rules.restarts.manners import ClearedSeen, RestartSeen

ENDED = EndSeen(signal.SIGTERM, took_s=0.1, exit_code=0, left=(), is_handled=True)
OK: CallSeen[None] = CallSeen(None, None, 0.01)
REFUSED: CallSeen[None] = CallSeen(None, RpcFailed(RpcCode.FAILED_PRECONDITION, "no"), 0.01)
HUNG: CallSeen[None] = CallSeen(None, RpcFailed(RpcCode.DEADLINE_EXCEEDED, "late"), 5.0)
PRE_START = HooksSeen(PluginOptions(pre_start_required=True), "a", early=OK, pre_start=HookSeen(OK, OK, REFUSED))


def test_a_plugin_that_ends_well_breaks_no_rule() -> None:
    for rule in (ending.ends, ending.ends_well, ending.leaves_no_socket, ending.handles_the_signal):
        assert list(rule.judge(ENDED)) == []


def test_a_plugin_killed_by_the_signal_breaks_one_rule() -> None:
    killed = replace(ENDED, exit_code=-signal.SIGTERM, left=("card.sock",), is_handled=False)
    assert len(list(ending.handles_the_signal.judge(killed))) == 1
    for rule in (ending.ends_well, ending.leaves_no_socket):
        with pytest.raises(NotApplicable, match="PB905"):
            list(rule.judge(killed))


def test_a_plugin_below_a_shell_is_not_asked_for_its_handler() -> None:
    with pytest.raises(NotApplicable, match="below the process"):
        list(ending.handles_the_signal.judge(replace(ENDED, is_handled=None)))


def test_a_second_instance_that_refuses_to_run_is_fine() -> None:
    refused = PairSeen(registered=False, refused_code=1)
    for rule in (instances.first_survives, instances.second_survives, instances.live_in_peace):
        with pytest.raises(NotApplicable, match="exit code 1"):
            list(rule.judge(refused))
        with pytest.raises(CannotJudge):
            list(rule.judge(replace(refused, refused_code=None)))


def test_a_plugin_that_called_in_vain_is_told_why() -> None:
    refused = RestartSeen(took_s=None, attempts=3, refusal="failed to dial", waited_s=8)
    assert list(manners.survives_clearing.judge(ClearedSeen(refused))) == [
        "the plugin called Register 3 times in 8 s, and is not back: failed to dial"
    ]


def test_a_plugin_that_ended_is_not_late_as_well() -> None:
    restarted = RestartSeen(took_s=4.0, attempts=1, exit_code=0)
    assert list(manners.registers_again.judge(restarted)) == []
    assert list(manners.stays.judge(restarted)) == ["the plugin ended with exit code 0 when the kubelet stopped"]
    with pytest.raises(NotApplicable):
        list(manners.is_prompt.judge(ClearedSeen(restarted)))


def test_a_repeat_that_fails_is_no_failure_of_the_first_call() -> None:
    once = replace(PRE_START, pre_start=HookSeen(REFUSED))
    assert list(hooks.pre_start_answers.judge(once)) == []
    assert len(list(hooks.pre_start_repeats.judge(once))) == 1
    never = replace(once, early=REFUSED)
    assert len(list(hooks.pre_start_answers.judge(never))) == 1
    assert list(hooks.pre_start_repeats.judge(never)) == []


def test_a_call_that_hangs_is_slow_and_not_failing() -> None:
    hung = replace(PRE_START, early=HUNG, pre_start=HookSeen(HUNG))
    assert list(hooks.pre_start_answers.judge(hung)) == []
    assert len(list(hooks.pre_start_is_quick.judge(hung))) == 1


def test_what_is_not_announced_or_not_allocated_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="deallocate_required"):
        list(hooks.deallocate_answers.judge(PRE_START))
    with pytest.raises(CannotJudge, match="Allocate of 'a' fails: no"):
        list(hooks.pre_start_answers.judge(replace(PRE_START, failed_allocate="no")))
