"""Marks on devices: which events make them, and what takes them away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.plugins.nvidia.config.choices import RecoveryStrategy
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice
from plugbay.plugins.nvidia.health.book import HealthBook
from plugbay.plugins.nvidia.health.recovery import ComesBack, RecoveryPolicy
from plugbay.plugins.nvidia.health.xids import XidPolicy
from plugbay.plugins.nvidia.nvml.values import DOUBLE_BIT_ECC, XID, GpuEvent, Probe

ONE = NvidiaDevice("GPU-1", "0", DeviceKind.GPU, "GPU-1")
TWO = NvidiaDevice("GPU-2", "1", DeviceKind.GPU, "GPU-2")
MIG_A = NvidiaDevice("MIG-a", "2:0", DeviceKind.MIG, "GPU-3", 7, 0)
MIG_B = NvidiaDevice("MIG-b", "2:1", DeviceKind.MIG, "GPU-3", 8, 0)
DEVICES = (ONE, TWO, MIG_A, MIG_B)
WELL = Probe(31, 0, False, False, False)
CLEAN_S = 60.0


def book(strategy: RecoveryStrategy = RecoveryStrategy.BY_XID) -> HealthBook:
    return HealthBook(XidPolicy(), RecoveryPolicy(strategy, CLEAN_S))


def xid(number: int, uuid: str = "GPU-1", gi: int | None = None, ci: int | None = None) -> GpuEvent:
    return GpuEvent(uuid, XID, number, gi, ci)


def sick(marks: HealthBook) -> dict[str, str]:
    found = {device.id: marks.health_of(device) for device in DEVICES}
    return {each: health.reason for each, health in found.items() if not health.is_healthy}


def test_scenario_96_an_xid_marks_its_gpu_only() -> None:
    """Scenario 96."""
    marks = book()
    assert marks.take(xid(79), DEVICES, 0.0) == (ONE,)
    assert sick(marks) == {"GPU-1": "Xid79"}
    assert "GPU has fallen off the bus" in marks.health_of(ONE).message


def test_scenarios_91_97_ecc_events_and_ignored_xids_mark_nothing() -> None:
    """Scenarios 91 and 97."""
    marks = book()
    assert marks.take(GpuEvent("GPU-1", DOUBLE_BIT_ECC, 0), DEVICES, 0.0) == ()
    assert marks.take(xid(31), DEVICES, 0.0) == ()
    assert sick(marks) == {}


@pytest.mark.parametrize(
    ("event", "hit"),
    [
        (xid(79, "GPU-3", 7, 0), (MIG_A,)),
        (xid(79, "GPU-3", 8, 0), (MIG_B,)),
        (xid(79, "GPU-3"), (MIG_A, MIG_B)),
        (xid(79, "GPU-3", 7), (MIG_A, MIG_B)),
        (xid(79, "GPU-3", 9, 0), ()),
        (xid(79, "GPU-9"), ()),
    ],
)
def test_events_find_all_mig_devices_that_they_are_about(event: GpuEvent, hit: tuple[NvidiaDevice, ...]) -> None:
    """Scenario 100, as it was intended."""
    assert book().take(event, DEVICES, 0.0) == hit


def test_a_contained_error_is_over_after_a_clean_time_and_a_probe() -> None:
    marks = book()
    marks.take(xid(94), DEVICES, 0.0)
    assert marks.due(DEVICES, 59.0) == ()
    assert marks.next_due(50.0) == 10.0
    marks.take(xid(94), DEVICES, 30.0)
    assert marks.due(DEVICES, 61.0) == (), "another XID begins the time anew"
    assert marks.due(DEVICES, 90.0) == (ONE,)
    marks.probed(ONE, "GPU is lost", 90.0)
    assert "GPU is lost" in marks.health_of(ONE).message
    marks.probed(ONE, replace(WELL, row_remap_pending=True), 91.0)
    assert sick(marks) == {"GPU-1": "Xid94"}
    marks.probed(ONE, WELL, 92.0)
    assert sick(marks) == {}


def test_a_grave_error_needs_a_reset() -> None:
    marks = book()
    marks.take(xid(48), DEVICES, 0.0)
    marks.probed(ONE, replace(WELL, ecc_uncorrected=3), 1.0)
    marks.probed(ONE, replace(WELL, ecc_uncorrected=3), 1000.0)
    assert sick(marks) == {"GPU-1": "Xid48"}
    marks.probed(ONE, WELL, 1001.0)
    assert sick(marks) == {}, "the counters have begun anew"


def test_a_lighter_xid_does_not_hide_a_graver_one() -> None:
    marks = book()
    marks.take(xid(79), DEVICES, 0.0)
    marks.take(xid(94), DEVICES, 1.0)
    marks.probed(ONE, WELL, 1000.0)
    assert sick(marks) == {"GPU-1": "Xid79"}
    marks.all_were_reset(0.5)
    marks.probed(ONE, WELL, 1001.0)
    assert sick(marks) == {}


def test_a_driver_that_was_loaded_anew_resets_nothing_that_came_after() -> None:
    """The look that finds the new driver may come later than its first events."""
    marks = book()
    marks.take(xid(79), DEVICES, 10.0)
    marks.take(xid(79, "GPU-2"), DEVICES, 30.0)
    marks.all_were_reset(20.0)
    for device in (ONE, TWO):
        marks.probed(device, WELL, 31.0)
    assert sick(marks) == {"GPU-2": "Xid79"}


def test_a_lost_gpu_that_came_back_has_to_pass_a_probe() -> None:
    marks = book()
    marks.lose("GPU-3", "GPU is lost")
    assert sick(marks) == {"MIG-a": "GpuLost", "MIG-b": "GpuLost"}
    marks.found({"GPU-3"}, DEVICES, 5.0)
    assert set(marks.due(DEVICES, 5.0)) == {MIG_A, MIG_B}
    marks.probed(MIG_A, WELL, 6.0)
    assert sick(marks) == {"MIG-b": "GpuLost"}


@pytest.mark.parametrize(
    ("strategy", "xid_number", "way"),
    [
        (RecoveryStrategy.NEVER, 94, ComesBack.NEVER),
        (RecoveryStrategy.CLEAN, 79, ComesBack.CLEAN),
        (RecoveryStrategy.RESET, 94, ComesBack.RESET),
        (RecoveryStrategy.BY_XID, 31, ComesBack.CLEAN),
        (RecoveryStrategy.BY_XID, 79, ComesBack.RESET),
        (RecoveryStrategy.BY_XID, 999, ComesBack.RESET),
    ],
)
def test_the_way_back_is_by_choice(strategy: RecoveryStrategy, xid_number: int, way: ComesBack) -> None:
    assert RecoveryPolicy(strategy).after(xid_number) is way


def test_never_is_never() -> None:
    marks = book(RecoveryStrategy.NEVER)
    marks.take(xid(94), DEVICES, 0.0)
    assert marks.due(DEVICES, 1e9) == ()
    marks.all_were_reset(1.0)
    assert marks.due(DEVICES, 1e9) == ()
    marks.probed(ONE, WELL, 1e9)
    assert sick(marks) == {"GPU-1": "Xid94"}, "also when every device is probed after a gap of events"


def test_devices_that_are_gone_are_forgotten() -> None:
    marks = book()
    marks.take(xid(79), DEVICES, 0.0)
    marks.keep({"GPU-2"}, set())
    assert sick(marks) == {}


@pytest.mark.parametrize("outcome", ["GPU is lost", replace(WELL, row_remap_failed=True)])
def test_what_fails_a_probe_is_marked_until_a_probe_passes(outcome: Probe | str) -> None:
    marks = book(RecoveryStrategy.NEVER)
    marks.probed(TWO, WELL, 0.0)
    marks.probed(ONE, outcome, 0.0)
    assert sick(marks) == {"GPU-1": "ProbeFailed"}
    assert "probed at every look" in marks.health_of(ONE).message
    assert "last probe" not in marks.health_of(ONE).message, "which is what was said before"
    assert marks.due(DEVICES, 0.0) == (ONE,)
    marks.probed(ONE, WELL, 0.1)
    assert sick(marks) == {}


@pytest.mark.parametrize("strategy", RecoveryStrategy)
def test_a_probe_that_an_operator_asks_for_counts_whatever_a_device_waits_for(strategy: RecoveryStrategy) -> None:
    marks = book(strategy)
    marks.take(xid(79), DEVICES, 0.0)
    marks.lose("GPU-2", "GPU is lost")
    assert marks.marked(DEVICES) == (ONE,), "a lost GPU cannot be probed"
    marks.probed(ONE, replace(WELL, row_remap_pending=True), 1.0, is_asked_for=True)
    assert sick(marks)["GPU-1"] == "Xid79"
    assert "replaced at the next reset" in marks.health_of(ONE).message
    marks.probed(ONE, WELL, 2.0)
    assert sick(marks)["GPU-1"] == "Xid79", "it waits for the same as before"
    marks.probed(ONE, WELL, 3.0, is_asked_for=True)
    assert "GPU-1" not in sick(marks)
