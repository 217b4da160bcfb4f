"""The GPUs of a node as a source of plugins: one for each resource, for as long as the node has devices of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from plugbay.errors import OperatorError, PlugbayError
from plugbay.model.health import Health
from plugbay.model.ids import ResourceName
from plugbay.ops.backoff import Backoff, Delays
from plugbay.ops.metrics import Metric
from plugbay.ops.spawned_worker import SpawnedWorker
from plugbay.ops.tasks import background
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.switching import ActiveConfig
from plugbay.plugins.nvidia.devices.devices import ResourceDevices
from plugbay.plugins.nvidia.devices.patterns import node_patterns
from plugbay.plugins.nvidia.devices.problems import check_problems
from plugbay.plugins.nvidia.health.recovery import RecoveryPolicy
from plugbay.plugins.nvidia.mps.programs import MpsPrograms
from plugbay.plugins.nvidia.mps.readiness import MpsAnswers, MpsReadiness
from plugbay.plugins.nvidia.nvml.client import Nvml, NvmlSettings
from plugbay.plugins.nvidia.nvml.values import GpuEvent, Watching, WatchLost
from plugbay.plugins.nvidia.platform.roots import present_control_nodes
from plugbay.plugins.nvidia.serving.configuring import ConfigReader, PrintedConfiguration
from plugbay.plugins.nvidia.serving.gone import Assigned
from plugbay.plugins.nvidia.serving.health import NodeHealth
from plugbay.plugins.nvidia.serving.node import NodeView
from plugbay.plugins.nvidia.serving.node_log import NodeLog
from plugbay.plugins.nvidia.serving.offers import ResourceOffer
from plugbay.plugins.nvidia.serving.plugin import NvidiaPlugin
from plugbay.plugins.nvidia.serving.settings import NodeSettings, roots_of
from plugbay.plugins.nvidia.serving.sight import Sight
from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.process.node_labels import ThisNode, this_node
from plugbay.sdk.process.sources import ConfigState
from plugbay.sdk.watching import Watches

if TYPE_CHECKING:
    from plugbay.model.podresources import PodResources
    from plugbay.sdk.author.needs import Need
    from plugbay.sdk.watching import PathChanges

logger = logging.getLogger(__name__)

_RETRIES: Final = Delays(1.0, 30.0, jitter=0.2)
_STEADY_S: Final = 60.0
_MPS_ANSWER_S: Final = 5.0
_REST: Final = 4.0
"""A look is followed by a rest of this many times its duration, so that looks take a fifth of the time at most."""
_MOST_REST_S: Final = 1.0
_SETTLE_S: Final = 0.1
"""A configuration file is read when it has been left alone for so long."""


class NvidiaSource:
    """Looks at the machine at start, when something happens, and every so often; offers what is there.

    Args:
        nvml: where the driver is, and how long it may take; None for what the settings say.
        node: the node whose labels may choose the configuration; None for the one that the environment names.
        mps: asks the MPS daemons; None for those at the usual place.
        early: an NVML worker that has been started already.

    Attributes:
        name: for logs.
        health: the health of its devices.

    Raises:
        OperatorError: the configuration is broken.
    """

    def __init__(
        self,
        settings: NodeSettings,
        nvml: NvmlSettings | None = None,
        node: ThisNode | None = None,
        mps: MpsReadiness | None = None,
        early: SpawnedWorker | None = None,
    ) -> None:
        self.name = "nvidia"
        self.settings = settings
        self._nvml_settings = nvml
        self._early = early
        self._config = ConfigReader(settings, node or this_node(settings.variables))
        self._plugins: dict[ResourceName, NvidiaPlugin] = {}
        self._asked = asyncio.Event()
        self._rest_s = 0.0
        self._config_due = False
        self._view: NodeView | None = None
        self._ask_assigned: Callable[[], Assigned] | None = None
        self._log = NodeLog()
        self._printed = PrintedConfiguration()
        self._backoff = Backoff(_RETRIES, steady_s=_STEADY_S)
        self.health = NodeHealth(settings.variables)
        self._mps = mps or MpsReadiness(MpsPrograms(settings.variables, answer_s=_MPS_ANSWER_S))
        self._mps_answers = MpsAnswers()
        if self.active is not None:
            self._judge_by(self.active.configuration)

    @property
    def members(self) -> Sequence[DevicePlugin]:
        return tuple(self._plugins.values())

    @property
    def needs(self) -> Sequence[Need]:
        """The rights that it needs on a node with its flags and files; raises OperatorError if one is broken."""
        from plugbay.plugins.nvidia.serving.needs import nvidia_needs  # imported here: only a manifest needs it

        return nvidia_needs(self.settings)

    @property
    def active(self) -> ActiveConfig | None:
        """The configuration in use; None before the first one is read."""
        return self._config.active

    @property
    def config_state(self) -> ConfigState | None:
        """The configuration, for pages; None if it cannot change."""
        return self._config.state

    @property
    def sight(self) -> Sight | None:
        """The machine as it was seen last."""
        return None if self._view is None else self._view.sight

    @property
    def view(self) -> NodeView | None:
        """The knowledge of the node; None while it is not served."""
        return self._view

    def follow_assignments(self, ask: Callable[[], Assigned]) -> None:
        """Ask by ``ask`` which devices pods hold, when some are gone."""
        self._ask_assigned = ask

    def refresh(self) -> None:
        """Read the configuration, look at the machine, and give unhealthy devices another chance, soon."""
        self.health.probe_unhealthy()
        if self._view is not None:
            self._view.nvml.try_again()
        self._read_again()

    def _read_again(self) -> None:
        """Read the configuration, and look at the machine, soon."""
        self._config_due = True
        self._asked.set()

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        problem: OperatorError | None = None
        async with contextlib.AsyncExitStack() as up:
            up.enter_context(contextlib.closing(self))
            try:
                await self._open(up)
                await self._look(changed)
            except OperatorError as error:
                problem = error  # raised below: the groups of tasks here would wrap it
            else:
                await self._follow(up, watches, changed)
        assert problem is not None
        raise problem

    async def _follow(self, up: contextlib.AsyncExitStack, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        if not self.health.checks_nothing:
            await up.enter_async_context(background(self._follow_events(), name="events of GPUs"))
        if paths := self.settings.watched:
            changes = up.enter_context(watches.watch(paths))
            await up.enter_async_context(background(self._follow_files(changes), name="configuration of GPUs"))
        if self._config.labels is not None:
            following = self._config.labels.follow(self._read_again)
            await up.enter_async_context(background(following, name="labels of the node"))
        while True:
            await self._wait()
            await self._look(changed)

    async def metrics(self, pods: Sequence[PodResources] | None) -> Sequence[Metric]:
        """The metrics of the GPUs, joined with the pods that hold them; see `plugbay.plugins.nvidia.monitoring`."""
        # Imported here: a plugin that shows no metrics does without.
        from plugbay.plugins.nvidia.serving.measuring import measure

        return [] if self._view is None else await measure(self._view, self.health, pods)

    async def look_once(self) -> Sequence[DevicePlugin]:
        """The plugins that would be served now.

        Raises:
            OperatorError: as at a start.
        """
        problem: OperatorError | None = None
        async with contextlib.AsyncExitStack() as up:
            try:
                await self._open(up)
                await self._look(lambda: None)
            except OperatorError as error:
                problem = error
        if problem is not None:
            raise problem
        return self.members

    def close(self) -> None:
        """Forget the machine: the next run sees it anew."""
        self._view = None

    async def _open(self, up: contextlib.AsyncExitStack) -> None:
        """Begin to look at the machine."""
        await self._configure()
        assert self.active is not None
        roots = roots_of(self.settings, self.active.configuration)
        chosen = self._nvml_settings or NvmlSettings(driver_root=roots.driver, sys_root=self.settings.root / "sys")
        early, self._early = self._early, None
        self._view = NodeView(self.settings, await up.enter_async_context(Nvml(chosen, early)), self._check_start)
        up.push_async_callback(self._view.dispensable.close)
        self._view.ask_assigned = self._ask_assigned
        for warning in self.health.warnings:
            logger.warning("%s", warning)
        logger.info("health of GPUs: %s", self.health.book.xids.sentence())

    async def _configure(self) -> None:
        """Read the configuration; a broken one changes nothing but the log."""
        self._config_due = False
        if problem := await self._config.read():
            self._log.tell(f"the configuration stays as it was: {problem}")
            return
        assert self.active is not None
        self._judge_by(self.active.configuration)
        if self._view is not None and self._nvml_settings is None:
            await self._view.follow_driver(self.active.configuration)

    def _judge_by(self, configuration: Configuration) -> None:
        self.health.book.recovery = RecoveryPolicy(configuration.health.recovery, configuration.health.clean_s)

    async def _look(self, changed: Callable[[], None]) -> None:
        """Look at the machine and offer what is there; notes how soon the next look may come."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            await self._look_now(changed)
        finally:
            self._rest_s = min(_REST * (clock() - began), _MOST_REST_S)

    async def _look_now(self, changed: Callable[[], None]) -> None:
        """Look at the machine and offer what is there.

        Raises:
            OperatorError: at the first look, and the configuration wants the start to fail then.
        """
        if self._config_due:
            await self._configure()
        assert self.active is not None
        assert self._view is not None
        configuration, view = self.active.configuration, self._view
        before = view.sight
        try:
            sight = await view.look(configuration)
        except PlugbayError as error:
            self._printed.tell(configuration, node_patterns(configuration.patterns, configuration.mig_strategy, ()))
            if before is None and configuration.fail_on_init_error:
                raise
            self._log.tell(f"GPUs stay as they were: {error}")
            return
        self._compare(before, sight)
        if not await self.health.probe_due(sight, view.nvml):
            self._asked.set()
        if sight.survey is None and not sight.resources:
            return  # nothing is known, which is not the same as no devices
        if sight.setback is not None:
            self._log.tell(f"no GPU is added, and the answers stay as they were: {sight.setback}")
            self._offer_what_is_left(sight, changed)
            return
        if before is not None and before.setback is not None:
            logger.info("GPUs are offered as they are again")
            self._log.forget()
        self._mps_answers = await self._mps.ask(sight.resources.values(), configuration)
        for name, problem in self._mps_answers.waiting.items():
            self._log.tell(f"{name} is not offered yet: {problem}")
        self.health.hinder(sight, self._mps_answers.silent)
        self._offer(sight, changed)

    def _check_start(self, sight: Sight) -> None:
        """Judge what is seen until the driver has answered for the first time."""
        assert self.active is not None
        assert self._view is not None
        if self._view.sight is not None and self._view.sight.survey is not None:
            return
        configuration = self.active.configuration
        self._printed.tell(configuration, sight.node.patterns)
        if sight.trouble is not None:
            if configuration.fail_on_init_error and self._view.looks == 1:
                if sight.choice.warning:
                    self._log.warn(sight.choice.warning)
                raise sight.trouble
            return
        if self._view.looks == 1:
            check_problems(sight.node.problems, fail_on_init_error=configuration.fail_on_init_error)
        if not sight.resources:
            platform = sight.choice.platform.value
            self._log.warn(f"No devices found on platform {platform}; looking again at intervals")

    def _compare(self, before: Sight | None, sight: Sight) -> None:
        """Judge what has changed on the machine, and tell of it."""
        assert self._view is not None
        self.health.compare(before, sight, self._view.nvml)
        if before is not None and before.gpu_uuids != sight.gpu_uuids:
            self._view.nvml.watch_anew()
        assert self.active is not None
        warnings = *self.active.configuration.warnings, *self._view.warnings
        self._log.tell_of(sight, was_in_trouble=before is not None and before.trouble is not None, warnings=warnings)

    def _offer(self, sight: Sight, changed: Callable[[], None]) -> None:
        """Offer what was seen; plugins come and go with their resources."""
        assert self.active is not None
        assert self._view is not None
        fresh: dict[ResourceName, NvidiaPlugin] = {}
        for name, resource in sight.resources.items():
            if name in self._mps_answers.waiting:
                continue
            health = self._health_of(resource, sight)
            offer = ResourceOffer(resource, self.active.configuration, self._view.features, self._view.links, health)
            if (plugin := self._plugins.get(name)) is None:
                plugin = NvidiaPlugin(offer, self._view.allocations, partial(present_control_nodes, self.settings.root))
            plugin.offer(offer)
            fresh[name] = plugin
        self._plugins = fresh
        changed()

    def _offer_what_is_left(self, sight: Sight, changed: Callable[[], None]) -> None:
        """Go on with the offers there are: their health is told, and what is gone leaves them."""
        there = {device.id for device in sight.devices()}
        left = {name: plugin.offered.without_those_gone(there) for name, plugin in self._plugins.items()}
        for name, offer in left.items():
            if offer is not None:
                self._plugins[name].offer(replace(offer, health=self._health_of(offer.resource, sight)))
        self._plugins = {name: plugin for name, plugin in self._plugins.items() if left[name] is not None}
        changed()

    def _health_of(self, resource: ResourceDevices, sight: Sight) -> Mapping[str, Health]:
        return {device.id: self.health.health_of(device, sight) for device in resource.devices.values()}

    async def _wait(self) -> None:
        """Wait until the next look is due."""
        assert self.active is not None
        await asyncio.sleep(self._rest_s)  # whatever has happened: in a storm of events each asks for a look
        now = asyncio.get_running_loop().time()
        delay_s = self.active.configuration.health.rescan_s
        if not self._is_settled:
            delay_s = min(delay_s, self._backoff.next_delay_s())
        else:
            self._backoff.reset()
        if (due_s := self.health.book.next_due(now)) is not None:
            delay_s = min(delay_s, due_s + 0.001)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._asked.wait()
        self._asked.clear()

    @property
    def _is_settled(self) -> bool:
        """Whether all is as it should be, so that the next look may wait."""
        sight = self.sight
        return sight is not None and sight.trouble is None and sight.setback is None and self._mps_answers.is_settled

    async def _follow_files(self, changes: PathChanges) -> None:
        async for _ in changes:
            await asyncio.sleep(_SETTLE_S)
            self._read_again()

    async def _follow_events(self) -> None:
        assert self._view is not None
        async with contextlib.aclosing(self._view.nvml.events()) as events:
            async for event in events:
                match event:
                    case GpuEvent():
                        self._take_event(event)
                    case Watching(unwatched, too_old) as watching:
                        for uuid, problem in unwatched.items():
                            self._log.warn(f"XIDs of GPU {uuid} are not seen: {problem}")
                        for uuid in too_old:
                            self._log.warn(f"Device {uuid} is too old to support healthchecking: its XIDs are not seen")
                        if self.health.watches(watching):
                            self._asked.set()
                    case WatchLost(problem):
                        self._log.warn(f"{problem}; GPUs are probed until events come again")
                        self._asked.set()

    def _take_event(self, event: GpuEvent) -> None:
        """Offer what follows from an event at once."""
        sight = self.sight
        if sight is None or not self.health.take_event(event, sight):
            return
        for plugin in self._plugins.values():
            offer = plugin.offered
            plugin.offer(replace(offer, health=self._health_of(offer.resource, sight)))
        self._asked.set()  # for a first probe, by which a reset is known later
