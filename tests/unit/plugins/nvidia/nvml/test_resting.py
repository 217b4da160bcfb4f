"""Devices on which the driver fails are left alone for longer and longer."""

from __future__ import annotations

from plugbay.plugins.nvidia.nvml.resting import RestingSubjects
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble

HUNG = DriverTrouble.HUNG.value


def test_one_death_is_by_chance_and_each_further_one_doubles_the_rest() -> None:
    resting: RestingSubjects[str] = RestingSubjects()
    assert not resting.died("a", HUNG, 0.0)
    assert not resting.is_resting("a", 0.0)
    rests = []
    for _ in range(12):
        assert resting.died("a", DriverTrouble.CRASHED.value, 0.0)
        rests.append(next(s for s in range(1000) if not resting.is_resting("a", s)))
    assert rests == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
    assert not resting.is_resting("b", 0.0)


def test_a_device_that_answers_is_as_good_as_new() -> None:
    resting: RestingSubjects[str] = RestingSubjects()
    for _ in range(5):
        resting.died("a", HUNG, 0.0)
    resting.answered("a")
    assert not resting.is_resting("a", 0.0)
    assert not resting.died("a", HUNG, 0.0)


def test_a_driver_that_is_not_there_is_no_fault_of_a_device() -> None:
    resting: RestingSubjects[str] = RestingSubjects()
    for _ in range(3):
        assert not resting.died("a", DriverTrouble.NOT_LOADED.value, 0.0)
    assert not resting.is_resting("a", 0.0)
