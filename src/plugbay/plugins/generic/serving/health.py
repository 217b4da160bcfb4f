"""The checks of a resource: whether nodes open, and what an operator's command says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, Health, unhealthy, unknown
from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.config.rules import CommandRule, HealthRule
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.serving.commanding import UnfilledCommand, command_environ, command_words
from plugbay.plugins.generic.serving.commands import run_command
from plugbay.plugins.generic.serving.opening import opening, reading
from plugbay.plugins.generic.serving.surroundings import PluginSurroundings
from plugbay.sdk.author.checks import health

OPENS_EVERY_S: Final = 30.0
"""The kernel does not tell when a device stops to open."""
_OPENS_WITHIN_S: Final = 10.0
_TO_END_S: Final = 5.0
"""The time that a command which was killed has to be gone."""

Check = Callable[[Device], Health | Awaitable[Health]]


def checks_by(
    rules: tuple[HealthRule, ...],
    unit_of: Callable[[DeviceId], Unit | None],
    first_share_of: Callable[[DeviceId], DeviceId],
    around: PluginSurroundings,
    outcomes: Counter[str],
) -> Iterator[Check]:
    """The checks that groups of one resource want, for `plugbay.sdk.author.plugin.health_checks`.

    Args:
        unit_of: gives the unit of a device that is there; None for one that is not, and has no health of its own.
        first_share_of: gives the first share of the device that a device is a share of.
        outcomes: counts ends of commands.
    """
    if any(rule.opens for rule in rules):

        @health(every=OPENS_EVERY_S, fall=1, timeout=_OPENS_WITHIN_S)
        def opens(device: Device) -> Health:
            unit = unit_of(device.id)
            return HEALTHY if unit is None or not unit.group.health.opens else _opening(unit, around.root)

        yield opens
    for command in dict.fromkeys(rule.command for rule in rules if rule.command is not None):
        yield _command_check(command, unit_of, first_share_of, around, outcomes)


def _opening(unit: Unit, root: Path) -> Health:
    found = (
        *(opening(node, root=root) for node in unit.nodes),
        *(reading(mount, root=root) for mount in unit.mounts),
    )
    return next((each for each in found if not each.is_healthy), HEALTHY)


class _Round:
    """The last run of a command for a device, which counts for each of its shares once: then the next one begins."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._verdict: Health | None = None
        self._told: set[DeviceId] = set()

    async def verdict(self, share: DeviceId, run: Callable[[], Awaitable[Health]]) -> Health:
        """The verdict of a run that this share has not been told of yet."""
        async with self._lock:
            if self._verdict is None or share in self._told:
                self._verdict = None  # until the run has ended well
                self._told = set()
                self._verdict = await run()
            self._told.add(share)
            return self._verdict


def _command_check(
    rule: CommandRule,
    unit_of: Callable[[DeviceId], Unit | None],
    first_share_of: Callable[[DeviceId], DeviceId],
    around: PluginSurroundings,
    outcomes: Counter[str],
) -> Check:
    rounds: dict[DeviceId, _Round] = {}

    @health(every=rule.every_s, fall=1, timeout=rule.timeout_s + _TO_END_S)
    async def command(device: Device) -> Health:
        unit = unit_of(device.id)
        if unit is None or unit.group.health.command != rule:
            return HEALTHY
        return await rounds.setdefault(first_share_of(device.id), _Round()).verdict(device.id, lambda: run(unit))

    async def run(unit: Unit) -> Health:
        words = command_words(rule, unit)
        if isinstance(words, UnfilledCommand):
            return unknown("CommandUnusable", words.problem)
        outcome = await run_command(words, environ=command_environ(unit, around.variables), timeout_s=rule.timeout_s)
        outcomes[outcome.word] += 1
        if outcome.is_late:
            return unhealthy("CommandTimedOut", f"{words[0]} {outcome.problem}")
        if outcome.problem:
            return unhealthy("CommandFailed", outcome.said or f"{words[0]} {outcome.problem}")
        return HEALTHY

    return command
