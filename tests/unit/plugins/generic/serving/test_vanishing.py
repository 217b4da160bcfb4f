"""Units that have vanished: how long they stay in the list."""

from __future__ import annotations

import pytest

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, HealthRule, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.serving.vanishing import HELD_AGAIN_S, Held, Units, VanishedUnits

GROUP = RuleGroup(Paths((PathRule("/dev/tty*"),)), health=HealthRule(grace_s=60))
ENTRY = Entry("tty", "example.com", (GROUP,))
TTY = ResourceName("example.com/tty")


def units(*names: str, entry: Entry = ENTRY) -> Units:
    return {TTY: tuple(Unit(DeviceId(name), TTY, entry, entry.groups[0], 0) for name in names)}


class Looks:
    """Looks one after the other, as a source makes them."""

    def __init__(self, *names: str) -> None:
        self.vanished = VanishedUnits()
        self.before = units(*names)

    def look(self, moment: float, *names: str, held: Held | None = None, keeps: bool = True) -> None:
        now = units(*names)
        self.vanished.miss(self.before, now, moment=moment, keeps=lambda _: keeps)
        self.left = [unit.id for unit in self.vanished.expire(moment, held if held is not None else {})]
        self.before = now

    @property
    def listed(self) -> list[str]:
        return [each.unit.id for each in self.vanished.by_resource().get(TTY, ())]


def test_a_unit_that_is_gone_stays_for_its_grace_time() -> None:
    looks = Looks("a", "b")
    looks.look(100, "a")
    assert looks.listed == ["b"]
    assert looks.vanished.next_due() == 160
    looks.look(159, "a")
    assert (looks.left, looks.listed) == ([], ["b"])
    looks.look(160, "a")
    assert (looks.left, looks.listed) == (["b"], [])
    assert looks.vanished.next_due() is None


def test_a_unit_that_comes_back_is_listed_once() -> None:
    looks = Looks("a", "b")
    looks.look(100)
    looks.look(101, "b")
    assert looks.listed == ["a"]
    looks.look(102, "a", "b")
    assert looks.vanished.resources() == frozenset()


def test_its_time_begins_anew_when_it_goes_again() -> None:
    looks = Looks("a")
    looks.look(100)
    looks.look(150, "a")
    looks.look(155)
    assert looks.vanished.next_due() == 215


@pytest.mark.parametrize("held", [{TTY: {DeviceId("a")}}, None], ids=["held", "not known"])
def test_a_unit_that_a_pod_may_hold_stays(held: Held | None) -> None:
    vanished = VanishedUnits()
    vanished.miss(units("a", "b"), units(), moment=0, keeps=lambda _: True)
    assert vanished.is_due(60)
    assert [unit.id for unit in vanished.expire(60, held)] == ([] if held is None else ["b"])
    assert "a" in [each.unit.id for each in vanished.by_resource()[TTY]]
    assert vanished.next_due() == 60 + HELD_AGAIN_S
    assert "a" in [unit.id for unit in vanished.expire(60 + HELD_AGAIN_S, {})]


def test_a_unit_goes_at_once_with_its_rules() -> None:
    looks = Looks("a", "b")
    looks.look(0, "b")
    looks.look(1, "b", keeps=False)
    assert looks.listed == []
    looks.look(2, keeps=False)
    assert looks.listed == []


def test_units_of_other_resources_are_not_looked_at_again() -> None:
    same = units("a")
    vanished = VanishedUnits()
    vanished.miss(same, same, moment=0, keeps=lambda _: True)
    assert vanished.next_due() is None


def test_no_grace_time_drops_a_unit_at_the_same_look() -> None:
    group = RuleGroup(GROUP.what, health=HealthRule(grace_s=0))
    vanished = VanishedUnits()
    vanished.miss(units("a", entry=Entry("tty", "example.com", (group,))), {}, moment=5, keeps=lambda _: True)
    assert vanished.is_due(5)
    assert [unit.id for unit in vanished.expire(5, {})] == ["a"]


def test_an_interface_that_a_pod_holds_is_in_the_pod() -> None:
    unit = Unit(DeviceId("a"), TTY, ENTRY, GROUP, 0, interfaces=("can0",))
    vanished = VanishedUnits()

    def is_in_pod() -> list[bool]:
        return [each.is_in_pod for each in vanished.by_resource().get(TTY, ())]

    vanished.miss({TTY: (unit,)}, {}, moment=0, keeps=lambda _: True)
    assert vanished.is_due(0), "it is asked at once who holds it"
    assert vanished.expire(0, {TTY: {DeviceId("a")}}) == []
    assert is_in_pod() == [True]
    assert vanished.expire(HELD_AGAIN_S, None) == []
    assert is_in_pod() == [True], "nothing new is known"
    assert vanished.expire(100, {TTY: {DeviceId("a")}}) == []
    assert vanished.expire(100 + HELD_AGAIN_S, {}) == []
    assert is_in_pod() == [False], "the pod is gone, and the interface not back"
    assert vanished.next_due() == 160
    assert vanished.expire(160, {}) == [unit]


def test_an_interface_that_no_pod_holds_has_its_grace_time() -> None:
    unit = Unit(DeviceId("a"), TTY, ENTRY, GROUP, 0, interfaces=("can0",))
    vanished = VanishedUnits()
    vanished.miss({TTY: (unit,)}, {}, moment=0, keeps=lambda _: True)
    assert vanished.expire(0, {}) == []
    assert [(each.is_in_pod, each.until) for each in vanished.by_resource()[TTY]] == [(False, 60)]
    assert vanished.next_due() == 60
