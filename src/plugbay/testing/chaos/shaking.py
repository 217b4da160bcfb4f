"""Chaos runs: each with a plugin and a kubelet of its own; and the search for a short one that fails too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import PluginProgramFailed
from plugbay.ops.tasks import background, ungrouped
from plugbay.testing.chaos.invariants import look_after, look_before
from plugbay.testing.chaos.kept_program import KeptProgram
from plugbay.testing.chaos.scene import CALL_S, ChaosScene
from plugbay.testing.chaos.shrinking import Trials, shrink
from plugbay.testing.chaos.steps import ChaosStep, StepKind
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.local.opening import local_kubelet
from plugbay.traffic.records import TrafficRecord
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

RECOVER_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class ChaosSettings:
    """The settings of chaos runs.

    Attributes:
        recover_s: the time that the plugin has after the faults.
    """

    command: PluginCommand
    environ: Mapping[str, str]
    recover_s: float = RECOVER_S


@dataclass(frozen=True, slots=True)
class ChaosOutcome:
    """One run.

    Attributes:
        steps: those up to the check that found problems.
        problems: the sentences about what does not hold; empty if all is well.
        took_s: the time of all steps and checks.
        recovered_s: the time of the last check.
        endings: the ways in which the plugin ended by itself, and was started again.
        records: the traffic.
    """

    steps: tuple[ChaosStep, ...]
    problems: tuple[str, ...]
    took_s: float
    recovered_s: float
    endings: tuple[str, ...]
    records: tuple[TrafficRecord, ...]

    @property
    def has_failed(self) -> bool:
        return bool(self.problems)


async def shake(settings: ChaosSettings, steps: tuple[ChaosStep, ...]) -> ChaosOutcome:
    """Do the steps to a plugin that has just been started, and check what has to hold afterwards.

    Raises:
        PluginProgramFailed: the plugin does not work without any fault.
    """
    with ungrouped():
        async with (
            local_kubelet(call_timeout_s=CALL_S) as kubelet,
            _kept(settings, kubelet.paths.root) as program,
            asyncio.TaskGroup() as tasks,
        ):
            before = await look_before(kubelet, program)
            clock = asyncio.get_running_loop().time
            began_s = clock()
            scene = ChaosScene(kubelet, program, tasks)
            problems: list[str] = []
            done: list[ChaosStep] = []
            for step in (*steps, ChaosStep(StepKind.CHECK)):
                done.append(step)
                done_s = clock()
                await scene.perform(step, before.health)
                if step.kind is StepKind.CHECK:
                    problems = await look_after(kubelet, program, before, recover_s=settings.recover_s)
                if problems:
                    break
            return ChaosOutcome(
                tuple(done[:-1]),
                tuple(problems),
                clock() - began_s,
                clock() - done_s,
                tuple(program.endings),
                tuple(kubelet.traffic.records),
            )


@asynccontextmanager
async def _kept(settings: ChaosSettings, root: Path) -> AsyncIterator[KeptProgram]:
    program = KeptProgram(settings.command, root, settings.environ)
    async with background(program.keep(), name="plugin of chaos"):
        yield program


async def shrink_outcome(
    settings: ChaosSettings, failed: ChaosOutcome, *, within_s: float, tell: Callable[[int, int], object]
) -> ChaosOutcome:
    """The shortest run that fails, of those that can be tried in time; ``failed`` itself if none does.

    Args:
        tell: called before each try with the number of steps that fail, and of those to be tried.
    """
    until = asyncio.get_running_loop().time() + within_s
    best = failed
    search: Trials[ChaosStep] = shrink(failed.steps)
    try:
        candidate = next(search)
        while asyncio.get_running_loop().time() < until:
            tell(len(best.steps), len(candidate))
            try:
                outcome = await shake(settings, candidate)
            except PluginProgramFailed as error:  # the faults have left something that outlives it
                problem = "the plugin fails without faults now, so no shorter sequence is looked for"
                logger.error("%s: %s", problem, error)
                break
            if outcome.has_failed:
                best = outcome
            candidate = search.send(outcome.has_failed)
    except StopIteration:
        pass
    return best
