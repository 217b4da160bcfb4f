"""A GPU of which the driver dies is left out of questions that go from GPU to GPU, and the others are asked about."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from plugbay.errors import DriverUnusable
from plugbay.plugins.nvidia.nvml.rounds import SURVEY, GpuRounds, Place, RoundProgress
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble


class Driver:
    """It dies of some GPUs, and answers with the indices of the others."""

    def __init__(self, count: int, *deadly: int, reason: DriverTrouble = DriverTrouble.CRASHED) -> None:
        self.count = count
        self.deadly: Collection[int] = deadly
        self.reason = reason
        self.deaths = 0

    async def ask(self, left_out: tuple[Place, ...], progress: RoundProgress) -> list[int]:
        read = []
        for index in range(self.count):
            if (index, self.count) in left_out:
                continue
            progress.place = (index, self.count)
            if index in self.deadly:
                self.deaths += 1
                raise DriverUnusable(self.reason.value, "it died", 0)
            read.append(index)
        return read


async def test_a_deadly_gpu_is_left_out_after_its_second_death() -> None:
    rounds, driver = GpuRounds(30.0), Driver(4, 2)
    assert await rounds.ask(SURVEY, driver.ask) == [0, 1, 3]
    assert await rounds.ask(SURVEY, driver.ask) == [0, 1, 3]
    assert driver.deaths == 2
    rounds.forgive()
    driver.deadly = ()
    assert await rounds.ask(SURVEY, driver.ask) == [0, 1, 2, 3]


async def test_a_gpu_that_the_survey_died_of_is_asked_about_nothing_until_it_has_been_read() -> None:
    rounds, driver = GpuRounds(30.0), Driver(3, 1)
    await rounds.ask(SURVEY, driver.ask)
    driver.deadly = ()
    assert await rounds.ask("metrics", driver.ask) == [0, 2]
    assert await rounds.ask_once("watch", driver.ask) == [0, 2]


async def test_a_gpu_that_another_question_died_of_is_surveyed_all_the_same() -> None:
    rounds, driver = GpuRounds(30.0), Driver(3, 1)
    assert await rounds.ask("metrics", driver.ask) == [0, 2]
    driver.deadly = ()
    assert await rounds.ask(SURVEY, driver.ask) == [0, 1, 2]
    assert await rounds.ask("metrics", driver.ask) == [0, 2]


async def test_a_driver_that_dies_of_two_gpus_or_of_the_only_one_is_unusable() -> None:
    for driver in (Driver(3, 0, 1), Driver(1, 0)):
        with pytest.raises(DriverUnusable):
            await GpuRounds(30.0).ask(SURVEY, driver.ask)
    rounds, all_of_them = GpuRounds(30.0), Driver(2, 0, 1)
    for _ in range(5):
        with pytest.raises(DriverUnusable):
            await rounds.ask(SURVEY, all_of_them.ask)


async def test_two_deadly_gpus_are_both_left_out_by_and_by() -> None:
    rounds, driver = GpuRounds(30.0), Driver(4, 0, 2)
    with pytest.raises(DriverUnusable):
        await rounds.ask(SURVEY, driver.ask)
    assert await rounds.ask(SURVEY, driver.ask) == [1, 3]


async def test_a_driver_that_is_not_there_is_no_fault_of_a_gpu() -> None:
    rounds, driver = GpuRounds(30.0), Driver(3, 1, reason=DriverTrouble.NOT_LOADED)
    for _ in range(3):
        with pytest.raises(DriverUnusable):
            await rounds.ask(SURVEY, driver.ask)
    driver.deadly = ()
    assert await rounds.ask(SURVEY, driver.ask) == [0, 1, 2]
