"""The machine as a source of plugins: one for each resource, for as long as rules and devices make it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from plugbay.errors import CorruptCheckpoint
from plugbay.model.ids import ResourceName
from plugbay.ops.backoff import RETRIES, Backoff
from plugbay.ops.tasks import background
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.plugins.generic.selecting.memory import HeldPaths
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.serving.absent import AbsentDevices
from plugbay.plugins.generic.serving.configuring import ActiveRules
from plugbay.plugins.generic.serving.counts import LookCounts
from plugbay.plugins.generic.serving.events import POLL_S, MachineEvents, MachineNews
from plugbay.plugins.generic.serving.looks import RuleLooks, RuleSight
from plugbay.plugins.generic.serving.offers import GenericOffer, offers_of, shape_of
from plugbay.plugins.generic.serving.plugin import GenericPlugin
from plugbay.plugins.generic.serving.settings import GenericSettings
from plugbay.plugins.generic.serving.surroundings import PluginSurroundings
from plugbay.plugins.generic.serving.vanishing import Held, VanishedUnits
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.config_file import SETTLE_S as FILE_SETTLE_S
from plugbay.sdk.process.sources import AskAssigned, ConfigState
from plugbay.sdk.watching import PathChanges, Watches

if TYPE_CHECKING:
    from plugbay.model.podresources import PodResources
    from plugbay.ops.metrics import Metric
    from plugbay.sdk.author.needs import Need
    from plugbay.sdk.serving.server import PluginServer

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.005
"""A device that is plugged in makes several events within this time."""
_REST: Final = 4.0
"""A look is followed by a rest of this many times its duration, so that looks take a fifth of the time at most."""
_MOST_REST_S: Final = 1.0


class GenericSource:
    """Looks at the machine at start and when something happens; offers what the rules select.

    Attributes:
        name: for logs.
        settings: those of the process.
        looks: how looks went.

    Raises:
        OperatorError: the config is broken.
    """

    def __init__(self, settings: GenericSettings) -> None:
        self.name = "generic"
        self.settings = settings
        self.looks = LookCounts()
        self._rules = ActiveRules(settings)
        self._machine = RuleLooks(settings.root)
        self._plugins: dict[ResourceName, GenericPlugin] = {}
        self._sight: RuleSight | None = None
        self._vanished = VanishedUnits()
        self._absent = AbsentDevices()
        self._held_before: HeldPaths = {}
        self._ask_held: AskAssigned | None = None
        self._asked = asyncio.Event()
        self._rules_due = False
        self._backoff = Backoff(RETRIES)
        self._told: frozenset[str] = frozenset()
        self._has_failed = False
        self._around = PluginSurroundings(settings.root, settings.variables)

    @property
    def members(self) -> Sequence[DevicePlugin]:
        return tuple(self._plugins.values())

    @property
    def config_state(self) -> ConfigState | None:
        """The config in use, and what keeps a newer one from being used."""
        return self._rules.state

    @property
    def config(self) -> GenericConfig:
        """The config in use."""
        return self._rules.config

    @property
    def needs(self) -> Sequence[Need]:
        """The rights that it needs on a node with its rules."""
        from plugbay.plugins.generic.answers.needs import generic_needs  # imported here: only a manifest needs it

        return generic_needs(self._rules.config, self.settings.root)

    def follow_assignments(self, ask: AskAssigned) -> None:
        """Ask by ``ask`` which devices pods hold, when some are gone."""
        self._ask_held = ask

    def refresh(self) -> None:
        """Read the config, and look at the machine, soon."""
        self._rules_due = True
        self._asked.set()

    async def look_once(self) -> Sequence[DevicePlugin]:
        """The plugins that would be served now."""
        await self._look(lambda: None, None)
        return self.members

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        async with contextlib.AsyncExitStack() as up:
            if (file := self.settings.file) is not None:
                changes = up.enter_context(watches.watch([file]))
                await up.enter_async_context(background(self._follow_file(changes), name="config of generic devices"))
            events = await up.enter_async_context(MachineEvents.following(watches, self._asked))
            self.looks.events = events.counts
            news: MachineNews | None = None
            while True:
                is_whole = await self._look(changed, news)
                if self._sight is not None:
                    events.heed_uevents(is_wanted=self._sight.has_machine_rules)
                    if events.watch(self._sight.directories):
                        self._asked.set()  # a name may have come before it was watched
                await self._wait(events.is_blind)
                news = events.take()
                is_polled = self._sight is not None and self._sight.is_polled(is_blind=events.is_blind)
                if self._rules_due or not is_whole or is_polled:
                    news = None  # anything may have happened, or was asked to be looked for
        raise AssertionError("never reached")

    async def _follow_file(self, changes: PathChanges) -> None:
        async for _ in changes:
            await asyncio.sleep(FILE_SETTLE_S)
            self.refresh()

    async def metrics(self, pods: Sequence[PodResources] | None) -> Sequence[Metric]:
        """The metrics of looks and commands."""
        # Imported here: a plugin that shows no metrics does without.
        from plugbay.plugins.generic.serving.measuring import generic_metrics

        return generic_metrics(self.looks, len(self._told), self._plugins.values())

    def server_metrics(self, servers: Sequence[PluginServer]) -> Sequence[Metric]:
        """The metrics of squat's plugin, if they are wanted."""
        from plugbay.plugins.generic.serving.measuring import compat_metrics  # as above

        return compat_metrics(servers) if self.settings.has_compat_metrics else []

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _look(self, changed: Callable[[], None], news: MachineNews | None) -> bool:
        """Look at the machine by the rules of now, and offer what is there; False if that failed."""
        self._asked.clear()
        if self._rules_due:
            self._rules_due = False
            await self._rules.read()
        config = self._rules.config
        if self._sight is None:
            self._held_before = await self._written() or {}
            self._machine.begin(self._held_before)
        try:
            with self.looks.timed():
                sight: RuleSight = await in_thread(self._machine.look, config, news)
        except OSError as error:
            self._tell({f"the machine cannot be looked at, so resources stay as they were: {error}"})
            self._has_failed = True
            return False
        self._has_failed = False
        self._backoff.reset()
        troubles = (*sight.selected.troubles, *sight.made.troubles)
        self._tell({f"{trouble.resource}: {trouble.text}" for trouble in troubles})
        before, self._sight = self._sight, sight
        await self._miss(config, before, sight)
        self._offer(config, sight)
        changed()
        return True

    def _tell(self, troubles: set[str]) -> None:
        for each in sorted(troubles - self._told):
            logger.warning("%s", each)
        self._told = frozenset(troubles)

    async def _miss(self, config: GenericConfig, before: RuleSight | None, sight: RuleSight) -> None:
        """Keep units in the list that have vanished, for a while."""
        in_force = {(entry.domain, entry.name): entry.groups for entry in config.entries}

        def keeps(unit: Unit) -> bool:
            return unit.group in in_force.get((unit.entry.domain, unit.entry.name), ())

        moment = asyncio.get_running_loop().time()
        if before is None:
            await self._begin(sight, moment)
        else:
            self._vanished.miss(before.selected.units, sight.selected.units, moment=moment, keeps=keeps)
        self._absent.find(sight.selected.units)
        if not (self._vanished.is_due(moment) or self._absent.is_due(moment)):
            return
        held = await self._held()
        self._absent.expire(moment, held)
        if held is not None:
            self._machine.forget_unless(held)
        for unit in self._vanished.expire(moment, held):
            logger.info("%s: %s did not come back and is not listed any more", unit.resource, _title(unit))

    async def _begin(self, sight: RuleSight, moment: float) -> None:
        root = str(self.settings.root).rstrip("/")
        held, units = self._held_before, sight.selected.units

        def is_there(path: str) -> bool:
            return os.path.exists(root + path)

        await in_thread(lambda: self._absent.begin(held, units, moment=moment, is_there=is_there))

    async def _held(self) -> Held | None:
        """The devices that pods hold; None when that cannot be known."""
        now = asyncio.get_running_loop().time()
        written = await self._written()
        return None if written is None else self._around.given.beside(written, now)

    async def _written(self) -> HeldPaths | None:
        """The devices that pods hold as the kubelet has written it down; None when that cannot be known."""
        if self._ask_held is None:
            return {}
        try:
            written: HeldPaths = await in_thread(self._ask_held)
        except FileNotFoundError:
            return {}  # a kubelet that has given nothing away has no checkpoint
        except (OSError, CorruptCheckpoint) as error:
            logger.warning("cannot find out which devices pods have, so devices that are gone stay listed: %s", error)
            return None
        return written

    def _offer(self, config: GenericConfig, sight: RuleSight) -> None:
        plugins: dict[ResourceName, GenericPlugin] = {}
        before = {name: plugin.offered for name, plugin in self._plugins.items()}
        for offer in offers_of(config, sight.selected, sight.made, self._vanished, self._absent, sight.ailing, before):
            plugins[offer.resource] = self._plugin_for(offer)
        self._plugins = plugins

    def _plugin_for(self, offer: GenericOffer) -> GenericPlugin:
        """The plugin that serves the resource already, unless it was registered as something else."""
        plugin = self._plugins.get(offer.resource)
        if plugin is not None and plugin.offered is offer:
            return plugin
        if plugin is None or plugin.shape != shape_of(offer.entry):
            return GenericPlugin(offer, self._around)
        plugin.offer(offer)
        return plugin

    async def _wait(self, is_blind: bool) -> None:
        """Wait until the next look is due."""
        await asyncio.sleep(min(_MOST_REST_S, _REST * self.looks.last_s))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._delay_s(is_blind)):
                await self._asked.wait()
        await asyncio.sleep(SETTLE_S)

    def _delay_s(self, is_blind: bool) -> float | None:
        """The seconds after which a look is due at the latest; None if only an event makes one due."""
        delays = []
        if self._has_failed:
            delays.append(self._backoff.next_delay_s())
        elif self._sight is not None and self._sight.is_polled(is_blind=is_blind):
            delays.append(POLL_S)
        for due in (self._vanished.next_due(), self._absent.next_due()):
            if due is not None:
                delays.append(max(0.0, due - asyncio.get_running_loop().time()) + 0.001)
        return min(delays, default=None)


def _title(unit: Unit) -> str:
    nodes = ", ".join(node.host_path for node in unit.nodes)
    return f"device {unit.id} ({nodes})" if nodes else f"device {unit.id}"
