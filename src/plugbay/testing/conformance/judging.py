"""A run: survey the plugin, play every scene that a chosen rule needs, and judge what was seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from plugbay.errors import RpcFailed
from plugbay.testing.conformance.findings import ConformanceReport, PluginOutput, RuleOutcome, Verdict, joined
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import AnyRule, AnyScene, Manner
from plugbay.testing.conformance.rules.start import SURVEY, registers
from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.stage import Stage, open_stage
from plugbay.testing.conformance.survey import FirstMeeting
from plugbay.values import dataclass

_UNKNOWN: Final = "the plugin registered no resource"
_MOST_OUTPUTS: Final = 5


@dataclass(frozen=True, slots=True)
class Played:
    """A scene after it was played for one resource.

    Attributes:
        seen: what its rules judge; None if it did not come to that, because of ``trouble``.
        trouble: why nothing was seen.
    """

    scene: AnyScene
    resource: str
    seen: Any
    trouble: NotApplicable | CannotJudge | None
    trace: tuple[str, ...]
    took_s: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """Findings that the machine may be to blame for: their scene is played again, alone."""

    scene: AnyScene
    resource: str
    rules: tuple[AnyRule, ...]


class Progress:
    """Hears how a run goes; this one keeps it to itself."""

    def playing(self, scene: str, resource: str) -> None:
        """A scene begins."""

    def judged(self, verdict: Verdict, done: int, of: int) -> None:
        """A rule was judged for a resource."""


class _Run:
    def __init__(self, settings: ConformanceSettings, rules: Sequence[AnyRule], progress: Progress) -> None:
        self.settings = settings
        self.rules = rules
        self.progress = progress
        self.verdicts: list[Verdict] = []
        self.doubts: list[Doubt] = []
        self._parts: dict[tuple[int, str], list[Verdict]] = {}
        self.outputs: list[PluginOutput] = []
        self.expected = len(rules)

    async def play(self, stage: Stage, scene: AnyScene) -> Played:
        """Play a scene; whatever the plugin does, there is an end."""
        self.progress.playing(scene.name, stage.resource)
        began = time.monotonic()
        seen, trouble = None, None
        try:
            seen = await _within(scene, stage)
        except* (NotApplicable, CannotJudge, RpcFailed, OSError) as reasons:
            trouble = _first(reasons)
        self._keep_output(stage, scene)
        return Played(scene, stage.resource, seen, trouble, stage.trace.lines, time.monotonic() - began)

    def judge(self, played: Played) -> None:
        """Judge what was seen by every rule of the scene."""
        for rule in self._rules_of(played.scene):
            self._take(rule, played, *_judged(rule, played))

    def judge_beside_others(self, played: Played) -> None:
        """As `judge`, but keep what a rule found that goes by the clock for another look: see `doubts`."""
        doubted = []
        for rule in self._rules_of(played.scene):
            outcome, findings = _judged(rule, played)
            if rule.is_timed and outcome is RuleOutcome.FAILED:
                doubted.append(rule)
            else:
                self._take(rule, played, outcome, findings)
        if doubted:
            self.doubts.append(Doubt(played.scene, played.resource, tuple(doubted)))

    def settle(self, doubt: Doubt, played: Played) -> None:
        """Judge what was seen when the scene was played again, alone."""
        for rule in doubt.rules:
            self._take(rule, played, *_judged(rule, played))

    def _rules_of(self, scene: AnyScene) -> Iterator[AnyRule]:
        return (rule for rule in self.rules if scene in rule.scenes)

    def _take(self, rule: AnyRule, played: Played, outcome: RuleOutcome, findings: tuple[str, ...]) -> None:
        seen_in = "" if played.scene is rule.scene else played.scene.name
        part = Verdict(
            rule, played.resource, outcome, findings, trace=played.trace, took_s=played.took_s, seen_in=seen_in
        )
        parts = self._parts.setdefault((rule.number, played.resource), [])
        parts.append(part)
        if len(parts) == len(rule.scenes):
            self.verdicts.append(joined(parts))
            self.progress.judged(self.verdicts[-1], len(self.verdicts), self.expected)

    def _keep_output(self, stage: Stage, scene: AnyScene) -> None:
        for subject in stage.subjects:
            if not subject.is_running and not subject.was_asked_to_end and len(self.outputs) < _MOST_OUTPUTS:
                ending = f"which ended with {subject.exit_code}"
                cause = f"in the scene {scene.name!r}, {ending}"
                self.outputs.append(PluginOutput(subject.output.text, subject.output.size, cause))


async def _within(scene: AnyScene, stage: Stage) -> Any:
    limit_s = scene.limit_s(stage.settings)
    try:
        async with asyncio.timeout(limit_s):
            return await scene.play(stage)
    except TimeoutError:
        raise CannotJudge(f"the scene {scene.name!r} was not over after {limit_s:g} s") from None


def _first(reasons: BaseExceptionGroup[Exception]) -> NotApplicable | CannotJudge:
    """The first of the reasons for which a scene showed nothing; a task group of the scene may have wrapped it."""
    match reasons.exceptions[0]:
        case BaseExceptionGroup() as group:
            return _first(group)
        case NotApplicable() | CannotJudge() as reason:
            return reason
        case error:
            return CannotJudge(str(error))


def _judged(rule: AnyRule, played: Played) -> tuple[RuleOutcome, tuple[str, ...]]:
    try:
        if played.trouble is not None:
            raise played.trouble
        findings = tuple(rule.judge(played.seen))
    except NotApplicable as reason:
        return RuleOutcome.NOT_APPLICABLE, (str(reason),)
    except CannotJudge as reason:
        return RuleOutcome.NOT_JUDGED, (str(reason),)
    return (RuleOutcome.FAILED if findings else RuleOutcome.PASSED), findings


async def judge_plugin(
    settings: ConformanceSettings, rules: Sequence[AnyRule], progress: Progress | None = None
) -> ConformanceReport:
    """Judge the plugin by ``rules``, for each of its resources, and by PB101 in any case if that is broken."""
    began = time.monotonic()
    run = _Run(settings, rules, progress or Progress())
    async with open_stage(settings) as stage:
        played = await run.play(stage, SURVEY)
        met: FirstMeeting | None = played.seen
    resources = met.resources if met is not None else ()
    if registers not in rules and _judged(registers, played)[1]:
        run.rules = rules = (registers, *rules)  # nothing else fails because a plugin is not there
    scenes = [each for each in dict.fromkeys(each for rule in rules for each in rule.scenes) if each is not SURVEY]
    run.expected = sum(rule.scene is SURVEY for rule in rules)
    run.expected += sum(rule.scene is not SURVEY for rule in rules) * max(1, len(resources))
    run.judge(played)
    notes: tuple[str, ...] = ()
    if met is None or not resources:
        for each in scenes:
            run.judge(Played(each, "", None, CannotJudge(_UNKNOWN), (), 0.0))
    else:
        jobs = 1 if met.ports else settings.jobs
        if met.ports:
            notes = (_one_at_a_time(met.ports),)
        await _play_all(run, scenes, resources, jobs)
    outputs = tuple(run.outputs) or ((met.output,) if met is not None and not resources else ())
    return ConformanceReport(
        settings.command.words,
        resources,
        tuple(sorted(run.verdicts, key=lambda each: (each.rule.number, each.resource))),
        outputs,
        notes,
        time.monotonic() - began,
    )


def _one_at_a_time(ports: Iterable[int]) -> str:
    named = ", ".join(map(str, ports))
    return (
        f"The plugin listens on TCP port {named}, so that only one instance of it can run at a time: this takes longer."
    )


async def _play_all(run: _Run, scenes: Sequence[AnyScene], resources: Sequence[str], jobs: int) -> None:
    """Play the scenes that can be played beside others, then those that cannot, and those of doubts."""
    shared = [each for each in scenes if each.manner is Manner.SHARED]
    own = [each for each in scenes if each.manner is Manner.OWN]
    room = asyncio.Semaphore(jobs)
    judge = run.judge if jobs == 1 else run.judge_beside_others

    async def play_shared() -> None:
        async with room, open_stage(run.settings) as stage:
            for each in shared:
                for resource in resources:
                    stage.play_next(resource)
                    judge(await run.play(stage, each))

    async def play_own(scene: AnyScene, resource: str) -> Played:
        async with room, open_stage(run.settings, resource) as stage:
            return await run.play(stage, scene)

    async def judge_own(scene: AnyScene, resource: str) -> None:
        judge(await play_own(scene, resource))

    async with asyncio.TaskGroup() as tasks:
        if shared:
            tasks.create_task(play_shared())
        for scene in own:
            for resource in resources:
                tasks.create_task(judge_own(scene, resource))
    for scene in scenes:
        if scene.manner is Manner.ALONE:
            for resource in resources:
                run.judge(await play_own(scene, resource))
    for doubt in run.doubts:
        run.settle(doubt, await play_own(doubt.scene, doubt.resource))
