"""The knowledge of a node: the last look at it, the links of its GPUs, and what was written for engines."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, ImexChannel, NodeFeatures
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import GpuSource, PlatformSigns
from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.plugins.nvidia.platform.imex import find_channels
from plugbay.plugins.nvidia.platform.roots import present_control_nodes
from plugbay.plugins.nvidia.platform.signs import find_signs
from plugbay.plugins.nvidia.serving.settings import NodeSettings, has_library, roots_of
from plugbay.plugins.nvidia.serving.sight import Sight, seen
from plugbay.plugins.nvidia.serving.written import WrittenSpecs, driver_nodes
from plugbay.plugins.nvidia.survey import LinkMatrix, MigMinors, Survey
from plugbay.plugins.nvidia.survey.mig_minors import NO_MIG_MINORS, PATH
from plugbay.sdk.hooks.calls import in_thread

logger = logging.getLogger(__name__)


class NodeView:
    """Looks at a node.

    Attributes:
        nvml: the driver.
        sight: the last look; None before the first. It is the same object while nothing changes.
        links: of the GPUs; None while they are not known.
        looks: how many looks there were.
        features: what the node has for every container.
        warnings: of the last look, beside those of devices.
    """

    def __init__(self, settings: NodeSettings, nvml: Nvml) -> None:
        self.nvml = nvml
        self.sight: Sight | None = None
        self.looks = 0
        self.features: NodeFeatures = NO_FEATURES
        self.warnings: tuple[str, ...] = ()
        self.links: LinkMatrix | None = None
        self._settings = settings
        self._written: object = None
        self._specs = WrittenSpecs()
        self._library_missing: DriverUnusable | None = None
        self._minors = ("", NO_MIG_MINORS)  # what the driver's file said, and its meaning
        self._seen_with: tuple[Configuration, PlatformSigns] | None = None

    async def look(self, configuration: Configuration) -> Sight:
        """Ask the driver, and describe what there is to engines.

        Raises:
            GpusUnusable, PathUnusable: the CDI specs cannot be written, or an IMEX channel is missing.
        """
        settings = self._settings
        self.looks += 1
        signs, features, self.warnings, self._minors = await in_thread(
            _look_at_files, settings, configuration, self._minors
        )
        minors = self._minors[1]
        sight = self._seen(configuration, signs, await self._ask(is_installed=signs.has_nvml), minors)
        if configuration.uses_cdi:
            if sight.trouble is None and (sight.survey is not None or sight.choice.source is GpuSource.TEGRA):
                await self._write_specs(configuration, sight, features)
            features = replace(features, optional_classes=self._specs.classes)
            self.warnings += self._specs.warnings
            if sight.without_nodes != self._specs.without_nodes:
                sight = replace(sight, without_nodes=self._specs.without_nodes)
        self.features = features
        await self._learn_links(sight)
        self.sight, self._seen_with = sight, (configuration, signs)
        return sight

    def _seen(
        self, configuration: Configuration, signs: PlatformSigns, answer: Survey | DriverUnusable, minors: MigMinors
    ) -> Sight:
        """The machine after this look: the last sight while all is as it was, as on nearly all looks."""
        before = self.sight
        if (
            before is not None
            and before.trouble is None
            and answer is before.survey
            and minors is before.minors
            and self._seen_with == (configuration, signs)
        ):
            return before
        return seen(configuration, signs, answer, minors, before)

    async def _write_specs(self, configuration: Configuration, sight: Sight, features: NodeFeatures) -> None:
        """Write the CDI specs, if something has changed that they depend on."""
        wanted = (configuration, sight.choice.source, sight.survey, sight.minors, features)
        nodes = await in_thread(lambda: driver_nodes(roots_of(self._settings, configuration).dev))
        if (wanted, nodes) != self._written:
            self._specs = await in_thread(_write_specs, self._settings, configuration, sight, features.imex_channels)
            self._written = wanted, nodes

    async def _ask(self, *, is_installed: bool) -> Survey | DriverUnusable:
        if self._library_missing is not None and not is_installed:
            return self._library_missing  # no need to start a process to be told the same
        try:
            survey = await self.nvml.survey()
        except DriverCallFailed as error:
            return DriverUnusable(DriverTrouble.FAILED.value, str(error), error.code)
        except DriverUnusable as error:
            self._library_missing = error if error.reason == DriverTrouble.LIBRARY_MISSING.value else None
            return error
        self._library_missing = None
        return survey

    async def _learn_links(self, sight: Sight) -> None:
        """Ask for the links of GPUs that are not known yet; without them a choice takes any GPUs."""
        if sight.trouble is not None or sight.survey is None or len(sight.survey.gpus) < 2:
            return
        if self.links is not None and sight.gpu_uuids <= set(self.links.uuids):
            return
        try:
            self.links = await self.nvml.links()
        except (DriverUnusable, DriverCallFailed) as error:
            logger.warning("GPUs are chosen without regard to their links, which cannot be read: %s", error)


def _look_at_files(
    settings: NodeSettings, configuration: Configuration, minors: tuple[str, MigMinors]
) -> tuple[PlatformSigns, NodeFeatures, tuple[str, ...], tuple[str, MigMinors]]:
    """The machine as its files describe it, warnings, and the minor numbers of MIG instances. Blocks."""
    is_installed = has_library(settings, roots_of(settings, configuration))
    signs = find_signs(settings.root, has_nvml=is_installed, library_path=settings.library_path)
    features, warnings = _find_features(settings, configuration)
    return signs, features, warnings, _read_minors(settings.root, minors)


def _read_minors(root: Path, known: tuple[str, MigMinors]) -> tuple[str, MigMinors]:
    """The driver's file, which has a thousand lines for eight GPUs, and its meaning."""
    try:
        text = (root / PATH).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return known if text == known[0] else (text, MigMinors.parse(text))


def _find_features(settings: NodeSettings, configuration: Configuration) -> tuple[NodeFeatures, tuple[str, ...]]:
    """The things that the node has for every container, and warnings.

    Raises:
        GpusUnusable: an IMEX channel is required and missing.
    """
    roots = roots_of(settings, configuration)
    channels, warnings = find_channels(configuration.imex, (roots.dev, settings.root))
    return NodeFeatures(present_control_nodes(settings.root), channels), warnings


def _write_specs(
    settings: NodeSettings, configuration: Configuration, sight: Sight, channels: tuple[ImexChannel, ...]
) -> WrittenSpecs:
    """As `write_node_specs`."""
    # Imported here: most nodes write no specs, and do without 3 MB and the time to read them.
    from plugbay.plugins.nvidia.serving.specs import write_node_specs

    return write_node_specs(settings, configuration, sight, channels)
