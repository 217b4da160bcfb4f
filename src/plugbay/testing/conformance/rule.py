"""Rules: what a plugin has to do, why, and how what was seen in a scene is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from plugbay.testing.conformance.settings import ConformanceSettings
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_PREFIX: Final = "PB"
_SCENE_S: Final = 240.0
"""More than the calls of any scene may take together, each of which has a limit of its own."""

Seen = TypeVar("Seen")
SeenThere = TypeVar("SeenThere", covariant=True)


class RuleSeverity(Enum):
    """The weight of a rule: what happens to users of a plugin that breaks it."""

    MUST = "must"
    """A kubelet breaks, a pod fails, or devices are lost, because of it."""
    SHOULD = "should"
    """It works, but worse than it could: slowly, wastefully, or not after a mishap that is rare."""
    INFO = "info"
    """Something that authors want to know."""

    @property
    def weight(self) -> int:
        """More for the graver one."""
        return {RuleSeverity.MUST: 2, RuleSeverity.SHOULD: 1, RuleSeverity.INFO: 0}[self]


class Manner(Enum):
    """The way in which a scene gets its plugin."""

    SHARED = "shared"
    """It only looks and calls: it may use a plugin that other such scenes have used, and leaves it as it was."""
    OWN = "own"
    """It starts, stops or disturbs the plugin, and so has one of its own; other scenes are played at the same time."""
    ALONE = "alone"
    """As OWN, and nothing else is played meanwhile: it changes the devices."""


@dataclass(frozen=True, slots=True)
class Scene(Generic[SeenThere]):
    """Something that is done with the plugin once, for all rules that judge what was seen.

    Attributes:
        name: a few words, for progress and traces.
        play: does it, and returns what was seen.
        starts: so many times it may wait for a plugin to be ready after its start.
        returns: so many times it may wait for a plugin to register again, or to list a change.
        own_s: the longest time for all else.
    """

    name: str
    play: Callable[[Stage], Awaitable[SeenThere]]
    manner: Manner = Manner.SHARED
    starts: int = 1
    returns: int = 0
    own_s: float = _SCENE_S

    def limit_s(self, settings: ConformanceSettings) -> float:
        """The longest time that it may take with a plugin that is given the times of ``settings``."""
        return self.own_s + self.starts * settings.ready_timeout_s + self.returns * settings.retry_timeout_s


@dataclass(frozen=True, slots=True)
class Rule(Generic[Seen]):
    """One numbered rule.

    Attributes:
        number: never used again for another rule; its first digit is its group.
        title: what a plugin has to do, as a sentence.
        source: where that is written: an API comment, a kubelet's source, a section of a specification.
        scene: what is done to see it.
        also: other scenes in which it shows as well; the rule is broken if it is in one of them.
        judge: a sentence for each thing that is wrong; it may raise a reason for none.
        is_timed: whether it goes by the clock, so that a machine that is busy with other scenes may break it. What it
            finds then is looked at again while nothing else is played.
    """

    number: int
    title: str
    severity: RuleSeverity
    source: str
    scene: Scene[Seen]
    judge: Callable[[Seen], Iterable[str]]
    is_timed: bool = False
    also: tuple[Scene[Seen], ...] = ()

    @property
    def scenes(self) -> tuple[Scene[Seen], ...]:
        """All scenes in which it is judged."""
        return (self.scene, *self.also)

    @property
    def name(self) -> str:
        """Its number as users write it, such as PB101."""
        return f"{_PREFIX}{self.number}"


AnyRule = Rule[Any]
"""A rule on whatever was seen in its scene."""
AnyScene = Scene[Any]
"""A scene whatever it shows."""


def scene(
    name: str, *, manner: Manner = Manner.SHARED, starts: int = 1, returns: int = 0, own_s: float = _SCENE_S
) -> Callable[[Callable[[Stage], Awaitable[Seen]]], Scene[Seen]]:
    """Make a `Scene` of a coroutine function, as a decorator."""

    def make(play: Callable[[Stage], Awaitable[Seen]]) -> Scene[Seen]:
        return Scene(name, play, manner, starts, returns, own_s)

    return make


def rule(
    number: int,
    title: str,
    severity: RuleSeverity,
    *,
    source: str,
    scene: Scene[Seen],
    also: tuple[Scene[Seen], ...] = (),
    is_timed: bool = False,
) -> Callable[[Callable[[Seen], Iterable[str]]], Rule[Seen]]:
    """Make a `Rule` of a function that judges what was seen in ``scene``, and in those of ``also``, as a decorator."""

    def make(judge: Callable[[Seen], Iterable[str]]) -> Rule[Seen]:
        return Rule(number, title, severity, source, scene, judge, is_timed, also)

    return make
