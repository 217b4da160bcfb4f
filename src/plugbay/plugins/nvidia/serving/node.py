"""The knowledge of a node: the last look at it, the links of its GPUs, and what was written for engines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from plugbay.errors import CorruptCheckpoint, DriverCallFailed, DriverUnusable, PlugbayError
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, ImexChannel, NodeFeatures
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import GpuSource, PlatformSigns
from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.plugins.nvidia.platform.imex import find_channels
from plugbay.plugins.nvidia.platform.roots import ContainerRoots
from plugbay.plugins.nvidia.platform.signs import find_signs
from plugbay.plugins.nvidia.serving.dispensable import DispensableQuestions
from plugbay.plugins.nvidia.serving.gone import Assigned, gone_devices, held_devices
from plugbay.plugins.nvidia.serving.settings import NodeSettings, has_library, roots_of
from plugbay.plugins.nvidia.serving.sight import Sight, seen
from plugbay.plugins.nvidia.serving.written import WrittenSpecs, driver_nodes
from plugbay.plugins.nvidia.survey import LinkMatrix, MigMinors, Survey
from plugbay.plugins.nvidia.survey.mig_minors import NO_MIG_MINORS, PATH
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.recent_allocations import RecentAllocations

logger = logging.getLogger(__name__)


class NodeView:
    """Looks at a node.

    Args:
        judge: told what was seen, before anything is written for engines; what it raises ends the look.

    Attributes:
        nvml: the driver.
        sight: the last look; None before the first. It is the same object while nothing changes.
        links: of the GPUs; None while they are not known.
        looks: how many looks there were.
        features: what the node has for every container.
        warnings: of the last look, beside those of devices.
        ask_assigned: gives what a kubelet has given to pods, and blocks; None without a kubelet.
        allocations: what containers were given since, perhaps.
        dispensable: questions that the plugin can do without; to be closed.
    """

    def __init__(self, settings: NodeSettings, nvml: Nvml, judge: Callable[[Sight], None]) -> None:
        self.nvml = nvml
        self.sight: Sight | None = None
        self.looks = 0
        self.features: NodeFeatures = NO_FEATURES
        self.warnings: tuple[str, ...] = ()
        self.links: LinkMatrix | None = None
        self.ask_assigned: Callable[[], Assigned] | None = None
        self.allocations = RecentAllocations()
        self.dispensable = DispensableQuestions()
        self._settings = settings
        self._judge = judge
        self._links_problem = ""
        self._written: object = None
        self._specs = WrittenSpecs()
        self._library_missing: DriverUnusable | None = None
        self._minors = ("", NO_MIG_MINORS)  # what the driver's file said, and its meaning
        self._seen_with: tuple[Configuration, PlatformSigns] | None = None

    async def look(self, configuration: Configuration) -> Sight:
        """Ask the driver, and describe what there is to engines.

        From the second look on, what cannot be described is the `Sight.setback`: health is told all the same.

        Raises:
            GpusUnusable, PathUnusable: the CDI specs cannot be written, or an IMEX channel is missing.
        """
        self.looks += 1
        signs, found, self._minors = await in_thread(_look_at_files, self._settings, configuration, self._minors)
        answer = await self._ask(is_installed=signs.has_nvml)
        sight = self._seen(configuration, signs, answer, self._minors[1])
        if gone := gone_devices(self.sight, sight):
            sight = sight.with_gone(held_devices(gone, await self._assigned()))
        self._judge(sight)
        try:
            await self._describe(sight, configuration, found)
        except PlugbayError as error:
            if self.sight is None:
                raise
            sight = replace(sight, setback=error)
        if configuration.uses_cdi and sight.without_nodes != self._specs.without_nodes:
            sight = replace(sight, without_nodes=self._specs.without_nodes)
        await self._learn_links(sight)
        self.sight, self._seen_with = sight, (configuration, signs)
        return sight

    async def follow_driver(self, configuration: Configuration) -> None:
        """Ask the driver at the place that a configuration names, if that is another one than before."""
        root = await in_thread(lambda: roots_of(self._settings, configuration).driver)
        if await self.nvml.move(root):
            logger.info(
                "the configuration names another root of the driver: GPUs are read through %s from now on", root
            )

    def _seen(
        self, configuration: Configuration, signs: PlatformSigns, answer: Survey | DriverUnusable, minors: MigMinors
    ) -> Sight:
        """The machine after this look: the last sight while all is as it was, as on nearly all looks."""
        before = self.sight
        if (
            before is not None
            and before.trouble is None
            and before.setback is None
            and not before.gone
            and answer is before.survey
            and minors is before.minors
            and self._seen_with == (configuration, signs)
        ):
            return before
        return seen(configuration, signs, answer, minors, before)

    async def _describe(self, sight: Sight, configuration: Configuration, found: _Found | PlugbayError) -> None:
        """Learn what the node has for every container, and write the CDI specs if that is due."""
        if isinstance(found, PlugbayError):
            raise found
        features, warnings = found
        if configuration.uses_cdi:
            if sight.trouble is None and (sight.survey is not None or sight.choice.source is GpuSource.TEGRA):
                await self._write_specs(configuration, sight, features)
            features = replace(features, optional_classes=self._specs.classes)
            warnings += self._specs.warnings
        self.features, self.warnings = features, warnings

    async def _write_specs(self, configuration: Configuration, sight: Sight, features: NodeFeatures) -> None:
        """Write the CDI specs, if something has changed that they depend on."""
        wanted = (configuration, sight.choice.source, sight.survey, sight.minors, features)
        nodes = await in_thread(lambda: driver_nodes(roots_of(self._settings, configuration).dev))
        if (wanted, nodes) != self._written or not await in_thread(_has_specs, self._specs, self._settings):
            self._written = None
            self._specs = await in_thread(_write_specs, self._settings, configuration, sight, features.imex_channels)
            self._written = wanted, nodes

    async def _assigned(self) -> Assigned | None:
        """The devices that pods hold; None when that cannot be known."""
        try:
            written: Assigned = await in_thread(self.ask_assigned) if self.ask_assigned is not None else {}
        except FileNotFoundError:
            written = {}  # a kubelet that has given anything away has a checkpoint by and by
        except (OSError, CorruptCheckpoint) as error:
            logger.warning("devices that are gone stay in the list, as pods may hold them: %s", error)
            return None
        return self.allocations.beside(written, asyncio.get_running_loop().time())

    async def _ask(self, *, is_installed: bool) -> Survey | DriverUnusable:
        if self._library_missing is not None and not is_installed:
            return self._library_missing  # no need to start a process to be told the same
        try:
            survey = await self._survey()
        except DriverCallFailed as error:
            return DriverUnusable(DriverTrouble.FAILED.value, str(error), error.code)
        except DriverUnusable as error:
            self._library_missing = error if error.reason == DriverTrouble.LIBRARY_MISSING.value else None
            return error
        self._library_missing = None
        return survey

    async def _survey(self) -> Survey:
        """The driver's answer; one worker that ends meanwhile is replaced: it may have been killed by chance."""
        try:
            return await self.nvml.survey()
        except DriverUnusable as error:
            if error.reason != DriverTrouble.CRASHED.value:
                raise
            return await self.nvml.survey()

    async def _learn_links(self, sight: Sight) -> None:
        """Ask for the links of GPUs that are not known yet; without them a choice takes any GPUs."""
        if sight.trouble is not None or sight.survey is None or len(sight.survey.gpus) < 2:
            return
        if self.links is not None and sight.gpu_uuids <= set(self.links.uuids):
            return
        try:
            self.links = await self.dispensable.answer("the links of GPUs", self.nvml.links)
        except (DriverUnusable, DriverCallFailed) as error:
            if str(error) != self._links_problem:  # the same one over and over is one line in the log
                logger.warning("GPUs are chosen without regard to their links, which cannot be read: %s", error)
            self._links_problem = str(error)


_Found: TypeAlias = tuple[NodeFeatures, tuple[str, ...]]
"""The things that the node has for every container, and warnings."""


def _look_at_files(
    settings: NodeSettings, configuration: Configuration, minors: tuple[str, MigMinors]
) -> tuple[PlatformSigns, _Found | PlugbayError, tuple[str, MigMinors]]:
    """The machine as its files describe it, and the minor numbers of MIG instances. Blocks."""
    roots = roots_of(settings, configuration)
    has_nvml = has_library(settings, roots)
    signs = find_signs(settings.root, has_nvml=has_nvml, driver_root=roots.driver, library_path=settings.library_path)
    found: _Found | PlugbayError
    try:
        found = _find_features(settings, configuration, roots)
    except PlugbayError as error:
        found = error
    return signs, found, _read_minors(settings.root, minors)


def _read_minors(root: Path, known: tuple[str, MigMinors]) -> tuple[str, MigMinors]:
    """The driver's file, which has a thousand lines for eight GPUs, and its meaning."""
    try:
        text = (root / PATH).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return known if text == known[0] else (text, MigMinors.parse(text))


def _find_features(settings: NodeSettings, configuration: Configuration, roots: ContainerRoots) -> _Found:
    """The things that the node has for every container, and warnings.

    Raises:
        GpusUnusable: an IMEX channel is required and missing.
    """
    channels, warnings = find_channels(configuration.imex, (roots.dev, settings.root))
    return NodeFeatures(imex_channels=channels), warnings


def _write_specs(
    settings: NodeSettings, configuration: Configuration, sight: Sight, channels: tuple[ImexChannel, ...]
) -> WrittenSpecs:
    """As `write_node_specs`."""
    # Imported here: most nodes write no specs, and do without 3 MB and the time to read them.
    from plugbay.plugins.nvidia.serving.specs import write_node_specs

    return write_node_specs(settings, configuration, sight, channels)


def _has_specs(specs: WrittenSpecs, settings: NodeSettings) -> bool:
    """As `has_specs`."""
    if not specs.classes:
        return True
    from plugbay.plugins.nvidia.cdi.writing import has_specs  # some were written, so it is there

    return has_specs(specs.classes, settings.cdi_directory)
