"""Each animal of the zoo is caught by exactly the rules that are meant for it, and a plugin without a fault by none."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.catalogue import all_rules
from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.rule import AnyRule
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand
from tests.contract.testing.zoo.animal import Animal
from tests.contract.testing.zoo.keeper import ANIMALS

RETRY_S: Final = 8.0
REPOSITORY: Final = Path(__file__).parents[3]
PROVOKE: Final = """
case $PLUGBAY_CHANGE in
    fail) echo "$PLUGBAY_DEVICE" >> "$PLUGBAY_ROOT/sick" ;;
    recover) : > "$PLUGBAY_ROOT/sick" ;;
    *) exit 3 ;;
esac
"""
BROKEN: Final = {name: animal for name, animal in ANIMALS.items() if animal is not Animal}
HOUSES: Final = {
    house.rpartition(".")[2]: [name for name, animal in BROKEN.items() if animal.__module__ == house]
    for house in dict.fromkeys(animal.__module__ for animal in BROKEN.values())
}
AT_ONCE: Final = 3
READY_S: Final = 10.0


async def judged(animal: str, rules: Sequence[AnyRule], places: Path) -> ConformanceReport:
    command = (sys.executable, "-m", "tests.contract.testing.zoo", animal, "{plugins}")
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    settings = ConformanceSettings(
        PluginCommand(command),
        ready_timeout_s=READY_S,
        retry_timeout_s=RETRY_S,
        jobs=2,
        provoke=PROVOKE,
        environ=environ,
        places=places,
    )
    return await judge_plugin(settings, rules)


def caught(report: ConformanceReport) -> dict[str, tuple[str, ...]]:
    """The findings by rule."""
    failed = [each for each in report.verdicts if each.outcome is RuleOutcome.FAILED]
    return {each.rule.name: each.findings for each in failed}


def beside(numbers: frozenset[str]) -> list[AnyRule]:
    """The rules with these numbers, and those that judge what is seen in the same scenes."""
    scenes = {id(each.scene) for each in all_rules() if each.name in numbers}
    return [each for each in all_rules() if id(each.scene) in scenes]


@pytest.mark.timeout(500)
@pytest.mark.parametrize("house", HOUSES)
async def test_animals_are_caught(house: str, sockets: Path) -> None:
    """Several at a time: a plugin that does not come back is waited for."""
    room = asyncio.Semaphore(AT_ONCE)

    async def findings_on(name: str) -> dict[str, tuple[str, ...]]:
        async with room:
            return caught(await judged(name, beside(BROKEN[name].caught_by), sockets))

    names = HOUSES[house]
    found = dict(zip(names, await asyncio.gather(*map(findings_on, names)), strict=True))
    assert {name: sorted(each) for name, each in found.items()} == {n: sorted(BROKEN[n].caught_by) for n in names}, (
        found
    )


@pytest.mark.soak
@pytest.mark.parametrize("name", ANIMALS)
async def test_animal_is_caught_by_no_other_rule(name: str, sockets: Path) -> None:
    findings = caught(await judged(name, all_rules(), sockets))
    assert findings.keys() == ANIMALS[name].caught_by, findings


def test_every_animal_is_caught_by_rules_that_exist() -> None:
    known = {each.name for each in all_rules()}
    assert {name: animal.caught_by - known for name, animal in BROKEN.items() if not animal.caught_by <= known} == {}
