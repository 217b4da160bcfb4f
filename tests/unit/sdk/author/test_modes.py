from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay import Device, Modes
from plugbay.errors import HardwareInUse, InvalidResourceName
from plugbay.model.ids import DeviceId

WHOLE, PART, THIRD = RESOURCES = ("example.com/fpga", "example.com/region", "example.com/lane")
DEVICES = {
    WHOLE: [Device("f0"), Device("f1")],
    PART: [Device(f"f{board}-r{region}") for board in (0, 1) for region in (0, 1)],
    THIRD: [Device(f"f{board}-l{lane}") for board in (0, 1) for lane in (0, 1)],
}


def hardware_of(device: Device) -> str:
    return device.id.partition("-")[0]


def learned() -> Modes:
    modes = Modes(hardware_of)
    for resource, devices in DEVICES.items():
        modes.mode(resource).learn(devices)
    return modes


actions = st.lists(
    st.tuples(st.sampled_from(["allocate", "fail", "release"]), st.sampled_from(RESOURCES), st.sets(st.integers(0, 3))),
    max_size=30,
)


@given(actions)
def test_hardware_is_used_one_way_and_the_other_ways_are_withdrawn(steps: list[tuple[str, str, set[int]]]) -> None:
    modes = learned()
    used: dict[str, set[str]] = {resource: set() for resource in RESOURCES}
    for action, resource, picks in steps:
        ids = [DEVICES[resource][pick].id for pick in picks if pick < len(DEVICES[resource])]
        wanted = {each.partition("-")[0] for each in ids}
        others = {each.partition("-")[0] for name in RESOURCES if name != resource for each in used[name]}
        mode = modes.mode(resource)
        if action == "release":
            mode.release(ids)
            used[resource] -= set(ids)
        elif wanted & others:
            with pytest.raises(HardwareInUse), mode.using(ids):
                pytest.fail("it must not be entered")
        else:
            with contextlib.suppress(ZeroDivisionError), mode.using(ids):
                assert mode.used == used[resource] | set(ids)
                if action == "fail":
                    raise ZeroDivisionError
            used[resource] |= set(ids) if action == "allocate" else set()
        for name, devices in DEVICES.items():
            taken = {each.partition("-")[0] for other in RESOURCES if other != name for each in used[other]}
            expected = {device.id for device in devices if hardware_of(device) in taken}
            assert modes.mode(name).used == used[name]
            assert modes.mode(name).withdrawn(devices) == expected


def test_others_are_told_when_hardware_changes_hands_and_only_then() -> None:
    modes, told = learned(), list[str]()
    modes.mode(PART).tell = told.append
    whole = modes.mode(WHOLE)
    with whole.using([DeviceId("f0")]):
        pass
    with whole.using([DeviceId("f0")]):
        pass
    whole.release([DeviceId("f0"), DeviceId("unheard-of")])
    whole.release([DeviceId("f0")])
    assert told == [f"f0 is in use as {WHOLE}", f"f0 is no longer in use as {WHOLE}"]


def test_what_was_in_use_counts_as_soon_as_its_hardware_is_known() -> None:
    modes, told = Modes(hardware_of), list[str]()
    for resource in (WHOLE, PART):
        modes.mode(resource).tell = told.append
    modes.restore({modes.mode(WHOLE).resource: [DeviceId("f1")]})
    assert told == []
    assert modes.unrestored == frozenset()
    modes.mode(PART).learn(DEVICES[PART])
    modes.mode(WHOLE).learn(DEVICES[WHOLE])
    assert told == [f"f1 is in use as {WHOLE}"]
    modes.mode(WHOLE).release([DeviceId("f1")])
    modes.restore({modes.mode(WHOLE).resource: [DeviceId("f1")]})  # once for each resource: later it is outdated
    assert modes.mode(WHOLE).used == frozenset()


def test_both_ways_from_before_keep_what_they_have() -> None:
    modes = learned()
    modes.restore({modes.mode(WHOLE).resource: [DeviceId("f0")], modes.mode(PART).resource: [DeviceId("f0-r0")]})
    assert modes.mode(WHOLE).withdrawn(DEVICES[WHOLE]) == frozenset()
    assert modes.mode(PART).withdrawn(DEVICES[PART]) == {"f0-r1"}
    modes.mode(PART).check([DeviceId("f0-r0")])


def test_name_that_no_kubelet_takes_is_refused() -> None:
    with pytest.raises(InvalidResourceName):
        Modes(hardware_of).mode("fpga")
