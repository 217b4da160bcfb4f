"""The places of devices of one kind at one parent, by which they are known, while others of them come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.machine import SysMachine
from tests.sysfs_trees import RecordedDevice, appear, lay_out, recorded, vanish

GPU = "/devices/pci0000:80/0000:80:01.1/0000:83:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> SysMachine:
    return lay_out("two-gpus", tmp_path)


def adapter(number: int) -> list[RecordedDevice]:
    """An I2C adapter of the GPU with what is below it."""
    return [each for each in recorded("two-gpus") if f"{each.path}/".startswith(f"{GPU}/i2c-{number}/")]


def identity(machine: SysMachine, number: int) -> str:
    device = machine.by_node(f"/dev/i2c-{number}")
    assert device is not None
    return machine.identity(device)


def test_the_identities_of_others_stay_when_one_goes_and_comes_again(machine: SysMachine, tmp_path: Path) -> None:
    first, second = identity(machine, 3), identity(machine, 4)
    for each in reversed(adapter(3)):
        machine.apply(vanish(each, tmp_path))
    machine.apply(Uevent("change", f"{GPU}/i2c-4", {}))
    assert identity(machine, 4) == second
    machine.refresh()
    assert identity(machine, 4) == second
    for each in adapter(3):
        machine.apply(appear(each, tmp_path))
    assert (identity(machine, 3), identity(machine, 4)) == (first, second)


def test_a_place_that_is_taken_is_not_given_twice(machine: SysMachine, tmp_path: Path) -> None:
    for each in reversed(adapter(3)):
        machine.apply(vanish(each, tmp_path))
    alone = identity(machine, 4)
    for each in adapter(3):
        machine.apply(appear(each, tmp_path))
    assert identity(machine, 4) == alone
    assert identity(machine, 3) not in ("", alone)


def test_a_machine_that_is_read_anew_counts_those_that_are_there(machine: SysMachine, tmp_path: Path) -> None:
    first = identity(machine, 3)
    identity(machine, 4)
    for each in reversed(adapter(3)):
        machine.apply(vanish(each, tmp_path))
    machine.forget()
    assert identity(machine, 4) == first
