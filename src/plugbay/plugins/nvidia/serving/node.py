"""The knowledge of a node: the last look at it, the links of its GPUs, and what was written for engines."""

from __future__ import annotations

import logging
from dataclasses import replace

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.plugins.nvidia.answers.features import NO_FEATURES, CdiClass, NodeFeatures
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.devices.detection import PlatformSigns
from plugbay.plugins.nvidia.devices.devices import DeviceKind, ResourceDevices
from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.plugins.nvidia.platform.signs import find_signs
from plugbay.plugins.nvidia.serving.offers import covering
from plugbay.plugins.nvidia.serving.settings import NodeSettings, has_library, roots_of
from plugbay.plugins.nvidia.serving.sight import Sight, read_minors, seen
from plugbay.plugins.nvidia.serving.specs import find_features, write_node_specs
from plugbay.plugins.nvidia.survey import LinkMatrix, MigMinors, Survey
from plugbay.sdk.hooks.calls import in_thread

logger = logging.getLogger(__name__)


class NodeView:
    """Looks at a node.

    Attributes:
        nvml: the driver.
        sight: the last look; None before the first.
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
        self._settings = settings
        self._links: LinkMatrix | None = None
        self._written: object = None
        self._classes: frozenset[CdiClass] = frozenset()
        self._library_missing: DriverUnusable | None = None

    async def look(self, configuration: Configuration) -> Sight:
        """Ask the driver, and describe what there is to engines.

        Raises:
            GpusUnusable, PathUnusable: the CDI specs cannot be written, or an IMEX channel is missing.
        """
        settings = self._settings
        self.looks += 1
        signs, minors, features, self.warnings = await in_thread(_look_at_files, settings, configuration)
        answer = await self._ask(is_installed=signs.has_nvml)
        sight = seen(configuration, signs, answer, minors, self.sight)
        if configuration.uses_cdi and sight.survey is not None and sight.trouble is None:
            written = (configuration, sight.survey, minors, features)
            if written != self._written:
                classes = await in_thread(
                    write_node_specs, settings, configuration, sight.survey, minors, features.imex_channels
                )
                self._written, self._classes = written, classes
            features = replace(features, optional_classes=self._classes)
        self.features = features
        await self._learn_links(sight)
        self.sight = sight
        return sight

    def links_of(self, resource: ResourceDevices) -> LinkMatrix | None:
        """The links of a resource's GPUs; None when not all of its devices are whole GPUs."""
        if any(device.kind is not DeviceKind.GPU for device in resource.devices.values()):
            return None
        return covering(self._links, list(resource.devices))

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
        if self._links is not None and sight.gpu_uuids <= set(self._links.uuids):
            return
        try:
            self._links = await self.nvml.links()
        except (DriverUnusable, DriverCallFailed) as error:
            logger.warning("GPUs are chosen without regard to their links, which cannot be read: %s", error)


def _look_at_files(
    settings: NodeSettings, configuration: Configuration
) -> tuple[PlatformSigns, MigMinors, NodeFeatures, tuple[str, ...]]:
    """The machine as its files describe it, and warnings. Blocks."""
    is_installed = has_library(settings, roots_of(settings, configuration))
    signs = find_signs(settings.root, has_nvml=is_installed, library_path=settings.library_path)
    features, warnings = find_features(settings, configuration)
    return signs, read_minors(settings.root), features, warnings
