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
from tests.contract.stock_kubelet import Loop
from tests.contract.stock_steps import APP, INIT, Admit, End, GoOn, Look, Play, RestartPlugin, Step, container, steps
from tests.contract.stock_world import StockWorld, stock_world

MEMORY: Final = Path("/dev/shm")
"""Where waiting for the disk costs nothing."""
POLICIES = pytest.mark.parametrize("policy", ReleasePolicy)


@POLICIES
@settings(max_examples=settings().max_examples // 4)
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


# --- each effect ----------------------------------------------------------------------------------------------------

ADMIT_ONE: Final = Admit((container("app", APP, 1),))
LIFE: Final[tuple[Step, ...]] = (
    Admit((container("init", INIT, 2), container("app", APP, 1))),
    GoOn(0),
    GoOn(0),
    Look(31),
    End(0),
    ADMIT_ONE,
    End(0),
    Look(31),
)


@pytest.mark.parametrize("policy", [ReleasePolicy.STRICT, pytest.param(ReleasePolicy.LAZY, marks=pytest.mark.soak)])
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
