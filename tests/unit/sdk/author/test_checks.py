from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from plugbay import Device, DevicePlugin, health, plugin
from plugbay.errors import InvalidHealthCheck
from plugbay.sdk.author.checks import CheckScope, Isolation
from plugbay.sdk.author.plugin import bind_refresh, health_checks


class Cards(DevicePlugin):
    resource_name = "example.com/card"

    @health(every=30, fall=2, rise=4, timeout=1, isolate=True)
    def one(self, device: Device) -> bool:
        return True

    @health()
    async def together(self) -> Mapping[str, bool]:
        return {}

    @staticmethod
    @health()
    def static(device: Device) -> bool:
        return True

    @property
    def broken(self) -> object:
        raise RuntimeError("looked at")

    def not_a_check(self, device: Device) -> bool:
        return True


def test_marked_methods_are_the_checks() -> None:
    checks = {check.name: check for check in health_checks(Cards())}
    assert {name: check.scope for name, check in checks.items()} == {
        "one": CheckScope.DEVICE,
        "together": CheckScope.ALL,
        "static": CheckScope.DEVICE,
    }
    settings = checks["one"].settings
    assert (settings.every_s, settings.fall, settings.rise, settings.timeout_s) == (30, 2, 4, 1)
    assert [checks[name].settings.isolation for name in ("one", "together")] == [Isolation.PROCESS, Isolation.NONE]


def test_method_overridden_without_mark_is_no_check() -> None:
    class Plain(Cards):
        def one(self, device: Device) -> bool:
            return False

    assert {check.name for check in health_checks(Plain())} == {"together", "static"}


def test_functions_are_given_to_the_decorator() -> None:
    @health(every=1)
    def answers(device: Device) -> bool:
        return True

    @plugin("example.com/gopher", health=answers)
    def gophers() -> Iterator[Device]:
        yield Device("g")

    @plugin("example.com/gopher", health=[answers, answers])
    def twice() -> Iterator[Device]:
        yield Device("g")

    assert [check.function for check in health_checks(gophers)] == [answers]
    assert len(health_checks(twice)) == 2


def unmarked(device: Device) -> bool:
    return True


@health()
def greedy(device: Device, more: int) -> bool:
    return True


@health()
def keyword(*, device: Device) -> bool:
    return True


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (unmarked, r"health check unmarked: is not marked with @health\(\.\.\.\)"),
        (greedy, "health check greedy: takes a device, or nothing"),
        (keyword, "health check keyword: takes a device, or nothing"),
    ],
)
def test_what_is_no_check_is_refused_where_it_is_named(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(InvalidHealthCheck, match=problem):

        @plugin("example.com/gopher", health=function)
        def gophers() -> Iterator[Device]:
            yield Device("g")


@pytest.mark.parametrize("settings", [{"every": 0}, {"timeout": -1}, {"fall": 0}, {"rise": 0}])
def test_numbers_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidHealthCheck, match=next(iter(settings))):
        health(**settings)(unmarked)


def test_async_check_cannot_be_isolated() -> None:
    async def check(device: Device) -> bool:
        return True

    with pytest.raises(InvalidHealthCheck, match="cannot be async"):
        health(isolate=True)(check)


def test_plugin_can_be_pickled_while_it_is_served() -> None:
    cards = Cards()
    cards.every = 3
    bind_refresh(cards, lambda: None)
    copy = pickle.loads(pickle.dumps(cards))
    assert copy.every == 3
    copy.refresh()
