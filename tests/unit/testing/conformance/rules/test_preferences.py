"""Preferences are judged by what a kubelet does with them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import AnyRule
from plugbay.testing.conformance.rules import preferences
from plugbay.testing.conformance.rules.preferences import PreferenceSeen, PreferencesSeen, requests
from plugbay.wire.plugin_server import PreferenceRequest

IDS = tuple(DeviceId(each) for each in ("a", "b", "c", "d"))


def asked(request: PreferenceRequest, *chosen: str, took_s: float = 0.01) -> PreferenceSeen:
    ids = tuple(DeviceId(each) for each in chosen)
    return PreferenceSeen(request, CallSeen((ids,), None, took_s))


def failed(request: PreferenceRequest, code: RpcCode) -> PreferenceSeen:
    return PreferenceSeen(request, CallSeen(None, RpcFailed(code, "no"), 0.01))


def found(rule: AnyRule, *answers: PreferenceSeen) -> list[str]:
    return list(rule.judge(PreferencesSeen(True, answers)))


@given(st.integers(1, 40))
def test_a_kubelet_could_ask_each_question(count: int) -> None:
    ids = tuple(DeviceId(f"d{number:02}") for number in range(count))
    for request in requests(ids):
        assert {*request.must_include} <= {*request.available} <= {*ids}
        assert len(request.must_include) < request.size <= len(request.available)


def test_an_empty_answer_is_no_preference() -> None:
    silent = asked(PreferenceRequest(IDS, (IDS[0],), 2))
    for rule in (preferences.has_size, preferences.keeps_must_include, preferences.is_available):
        assert found(rule, silent) == []


def test_a_device_named_twice_counts_once() -> None:
    assert found(preferences.has_size, asked(PreferenceRequest(IDS, (), 2), "a", "a")) == [
        "asked for 2 of 'a', 'b', 'c', 'd', it prefers 'a', 'a'"
    ]


def test_an_answer_is_compared_with_its_own_question() -> None:
    lacking = asked(PreferenceRequest(IDS, (IDS[3],), 2), "a", "b")
    foreign = asked(PreferenceRequest(IDS[2:], (), 1), "a")
    assert found(preferences.keeps_must_include, lacking, foreign) == [str(lacking)]
    assert found(preferences.is_available, lacking, foreign) == [str(foreign)]


def test_order_is_judged_where_the_same_question_has_one_answer() -> None:
    first = asked(PreferenceRequest(IDS, (), 2), "a", "b")
    turned = asked(PreferenceRequest(IDS[::-1], (), 2), "d", "c")
    seen = PreferencesSeen(True, (first,), again=first, turned=turned)
    assert len(list(preferences.ignores_order.judge(seen))) == 1
    assert list(preferences.is_stable.judge(seen)) == []
    unstable = replace(seen, again=asked(first.request, "b", "c"))
    assert len(list(preferences.is_stable.judge(unstable))) == 1
    with pytest.raises(NotApplicable, match="PB504"):
        list(preferences.ignores_order.judge(unstable))


def test_a_missing_method_is_the_matter_of_another_rule() -> None:
    request = PreferenceRequest(IDS, (), 1)
    with pytest.raises(NotApplicable, match="PB204"):
        found(preferences.answers, failed(request, RpcCode.UNIMPLEMENTED))
    assert found(preferences.answers, asked(request, "a"), failed(request, RpcCode.INTERNAL)) != []


@pytest.mark.parametrize("took_s", [0.9, 1.1])
def test_a_slow_answer_is_one_that_takes_more_than_a_second(took_s: float) -> None:
    request = PreferenceRequest(IDS, (), 1)
    seen = PreferencesSeen(True, (asked(request, "a"),), many=asked(request, "a", took_s=took_s))
    assert bool(list(preferences.is_quick.judge(seen))) is (took_s > 1)


def test_a_plugin_that_dies_of_an_unknown_device_breaks_the_connection_or_falls_silent() -> None:
    request = PreferenceRequest(IDS, (), 1)
    known = (asked(request, "a"),)
    refused = PreferencesSeen(True, known, stranger=failed(request, RpcCode.NOT_FOUND))
    assert list(preferences.survives_strangers.judge(refused)) == []
    for dead in (replace(refused, stranger=failed(request, RpcCode.UNAVAILABLE)), replace(refused, lives=False)):
        assert len(list(preferences.survives_strangers.judge(dead))) == 1


def test_a_plugin_that_announces_none_is_not_judged() -> None:
    with pytest.raises(NotApplicable, match="does not announce"):
        list(preferences.has_size.judge(PreferencesSeen(False, ())))
