"""Pods come and go, the kubelet restarts and spoils its checkpoints, the plugin is killed between any two effects: no
device is released in use, none is given dirty under ``strict``, and each is released in the end.

The steps are the same as those of the model in ``tests/unit/sdk/release/test_machine.py`` and more; here everything
goes over real sockets and files, with our manager for a kubelet.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay import ReleasePolicy
from tests.contract.rigs.stock_kubelet import Fault, Loop
from tests.contract.rigs.stock_steps import (
    APP,
    INIT,
    Admit,
    End,
    FailReleases,
    GoOn,
    Kill,
    Look,
    Play,
    Reboot,
    RestartKubelet,
    RestartPlugin,
    Spoil,
    Step,
    TimePasses,
    container,
    steps,
)
from tests.contract.rigs.stock_world import StockWorld, stock_world

MEMORY: Final = Path("/dev/shm")
"""Where waiting for the disk costs nothing."""
POLICIES = pytest.mark.parametrize("policy", ReleasePolicy)
pytestmark = pytest.mark.timeout(300)


@pytest.mark.timeout(120 + settings().max_examples)  # shrinking what fails takes longer than finding it
@POLICIES
@settings(max_examples=settings().max_examples // 6)
@given(steps, st.booleans())
def test_whatever_happens(policy: ReleasePolicy, steps: list[Step], has_directories: bool) -> None:
    play(steps, policy, has_directories=has_directories)


def play(steps: Sequence[Step], policy: ReleasePolicy, *, has_directories: bool) -> None:
    async def played(world: StockWorld) -> None:
        await Play(world).take(steps)
        await world.finish()

    run_in_world(policy, played, has_directories=has_directories)


def run_in_world(
    policy: ReleasePolicy, work: Callable[[StockWorld], Coroutine[Any, Any, None]], *, has_directories: bool = False
) -> None:
    async def worked() -> None:
        with tempfile.TemporaryDirectory(prefix="pb", dir=MEMORY if MEMORY.is_dir() else None) as root:
            async with stock_world(Path(root), policy, has_directories=has_directories) as world:
                await work(world)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(worked())


# --- what each rule is for ------------------------------------------------------------------------------------------

ADMIT_ONE: Final = Admit((container("app", APP, 1),))
ADMIT_REUSING: Final = Admit((container("init", INIT, 2), container("app", APP, 1)))
HAZARDS: Final[dict[str, tuple[Step, ...]]] = {
    "a-writer-overtakes-another": (Admit((container("app", APP, 1),), late=True), Look(31)),
    "a-writer-overtakes-another-in-an-admission": (Admit(ADMIT_REUSING.containers, late=True), Look(31)),
    "init-container": (ADMIT_REUSING, GoOn(0), GoOn(0), Look(31), GoOn(0), Look(31)),
    "refused-pod-runs-on": (ADMIT_ONE, Look(31), RestartKubelet(refuses=True), Look(1), Admit(ADMIT_ONE.containers)),
    "checkpoint-lost": (ADMIT_ONE, Look(31), RestartKubelet(is_lost=True), TimePasses(80), Look(31), ADMIT_ONE),
    "and-written-by-others": (
        ADMIT_ONE,
        Look(31),
        RestartKubelet(is_lost=True, is_first=False),
        TimePasses(80),
        Look(31),
        ADMIT_ONE,
    ),
    "given-twice-and-given-back-once": (
        ADMIT_ONE,
        Look(31),
        RestartKubelet(is_lost=True),
        Admit((container("app", APP, 3),)),
        End(1),
        TimePasses(80),
        Look(31),
        Look(31),
    ),
    "kubelet-dies-in-an-allocate": (
        RestartKubelet(admitting=ADMIT_ONE.containers),
        ADMIT_ONE,
        TimePasses(80),
        Look(31),
    ),
    "allocate-during-a-release": (
        ADMIT_ONE,
        Look(31),
        End(0),
        Admit(ADMIT_ONE.containers, while_looking=True),
    ),
    "release-fails": (FailReleases(2), ADMIT_ONE, End(0), ADMIT_ONE, ADMIT_ONE, ADMIT_ONE, Look(31)),
    "journal-of-an-older-version": (
        ADMIT_ONE,
        Look(31),
        RestartPlugin(loses_journal=True),
        Look(31),
        End(0),
        ADMIT_ONE,
    ),
    "journal-lost-as-a-pod-ends": (ADMIT_ONE, Look(31), End(0), RestartPlugin(loses_journal=True), Look(31), Look(31)),
    "journal-lost-and-killed-at-the-start": (
        ADMIT_REUSING,
        Look(31),
        Kill(8, stays_away=True),
        Kill(0, at_start=True),
        RestartPlugin(loses_journal=True),
        End(0),
        Look(31),
        Look(31),
    ),
    "reboot": (ADMIT_REUSING, GoOn(0), Reboot(), ADMIT_ONE),
    **{
        f"checkpoint-{fault.name.lower()}": (ADMIT_ONE, Look(31), Spoil(fault), Look(31), End(0), ADMIT_ONE, Look(31))
        for fault in Fault
    },
}


@POLICIES
@pytest.mark.parametrize("steps", HAZARDS.values(), ids=HAZARDS.keys())
def test_hazard(policy: ReleasePolicy, steps: Sequence[Step]) -> None:
    play(steps, policy, has_directories=False)


# --- each effect ----------------------------------------------------------------------------------------------------

LIFE: Final[tuple[Step, ...]] = (
    ADMIT_REUSING,
    GoOn(0),
    GoOn(0),
    Look(31),
    End(0),
    ADMIT_ONE,
    End(0),
    Look(31),
)


@POLICIES
def test_killed_at_each_effect(policy: ReleasePolicy) -> None:
    async def killed(world: StockWorld) -> None:
        for number in itertools.count():
            deaths, world.plugin.fate.left = world.deaths, number
            await Play(world).take(LIFE)
            assert await world.settle() == [], number
            assert not world.witness.wrong, (number, world.witness.wrong)
            if world.deaths == deaths:
                break
        assert number > 30
        assert world.witness.releases > number

    run_in_world(policy, killed)


def test_killed_at_each_effect_of_a_start() -> None:
    async def killed(world: StockWorld) -> None:
        for number in itertools.count():
            await Play(world).take([ADMIT_ONE])
            deaths, world.kill_at_start = world.deaths, number
            await Play(world).take([Look(1), RestartPlugin(loses_journal=True), Look(31), Look(31)])
            await world.settle()
            assert not world.witness.wrong, (number, world.witness.wrong)
            assert not world.witness.dirty, number
            if world.deaths == deaths:
                break
        assert number > 5

    run_in_world(ReleasePolicy.STRICT, killed)
