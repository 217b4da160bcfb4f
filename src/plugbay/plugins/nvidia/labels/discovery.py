"""Feature discovery at work: labels of the machine, written in rounds.

Source: gpu-feature-discovery 0.20 ``cmd/gpu-feature-discovery/main.go``; spec 7.1.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plugbay.errors import DriverCallFailed, OperatorError, PathUnusable
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first
from plugbay.plugins.nvidia.config.arguments import Layer
from plugbay.plugins.nvidia.labels.feature_file import feature_text, remove_feature_file, write_feature_file
from plugbay.plugins.nvidia.labels.gpus import labelled_gpus
from plugbay.plugins.nvidia.labels.node_feature import FeatureTarget
from plugbay.plugins.nvidia.labels.node_labels import NodeLabels, node_labels
from plugbay.plugins.nvidia.labels.reading import read_machine
from plugbay.plugins.nvidia.labels.resource_labels import Labels
from plugbay.plugins.nvidia.labels.settings import (
    FeatureSettings,
    feature_config_file,
    feature_dialect,
    feature_settings,
)
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.plugins.nvidia.platform.config_files import load_content

if TYPE_CHECKING:
    from plugbay.ops.cluster import ClusterApi
    from plugbay.plugins.nvidia.labels.publishing import FeaturePublisher

logger = logging.getLogger(__name__)


def load_features(arguments: Layer, environment: Layer) -> FeatureSettings:
    """Read the settings of a command line, an environment and the file that they name. Blocks.

    Raises:
        InvalidNvidiaConfig: the file cannot be read, or something in one of the three is of no use.
    """
    name = feature_config_file(arguments, environment)
    content = load_content(Path(name) if name else None, feature_dialect(arguments, environment))
    return feature_settings(content, arguments, environment)


async def find_labels(
    settings: FeatureSettings, root: Path, *, timestamp_s: int, nvml: NvmlSettings | None = None
) -> NodeLabels:
    """The labels of the machine whose files are below ``root``.

    The driver is asked by a process of its own, which ends with this call: between two rounds nothing keeps the driver
    loaded, and a driver that is installed or replaced meanwhile is found.

    Args:
        timestamp_s: Unix seconds, for the label that tells them.
        nvml: how the driver is asked, at the driver's root of ``settings``.

    Raises:
        DriverUnusable, DriverCallFailed, GpusUnusable: there is no driver to ask, and the settings want one.
    """
    survey = await labelled_gpus(settings, root, nvml or NvmlSettings())
    machine = await asyncio.to_thread(read_machine, root, settings.machine_type_file)
    labels = node_labels(
        survey,
        machine,
        mig=settings.mig_strategy,
        sharing=settings.sharing,
        timestamp_s=timestamp_s if settings.has_timestamp else None,
    )
    lost = () if survey is None else tuple(f"no label tells of a GPU: {gpu.problem}" for gpu in survey.unreadable)
    return replace(labels, warnings=(*settings.warnings, *lost, *labels.warnings))


class FeatureDiscovery:
    """Writes labels in rounds, until it is asked to stop.

    Args:
        load: reads the settings; called at the start, and when they are to be read again.
        root: of the machine's files.
        show: prints the text of labels; for settings without a file.
        clock: tells the time.
        connect: gives the API of the cluster; only settings that want a NodeFeature object need it.
        nvml: how the driver is asked; None for the usual way.
    """

    def __init__(
        self,
        load: Callable[[], FeatureSettings],
        root: Path,
        *,
        show: Callable[[str], object],
        clock: Clock,
        connect: Callable[[], ClusterApi] | None = None,
        nvml: NvmlSettings | None = None,
    ) -> None:
        self._connect = connect
        self._publisher: FeaturePublisher | None = None
        self._load = load
        self._root = root
        self._show = show
        self._clock = clock
        self._nvml = nvml
        self._stopped = asyncio.Event()
        self._reload = asyncio.Event()
        self._told: set[str] = set()
        self._started_s: int | None = None  # for the label; None when it is to be told anew

    def stop(self) -> None:
        """End `run` soon, also in the middle of a round."""
        self._stopped.set()

    def reload(self) -> None:
        """Read the settings again, and begin a new round, soon."""
        self._reload.set()

    async def run(self) -> None:
        """Make labels until `stop`; once only, if the settings say so. A file goes with the end, if it is not to stay.

        Raises:
            OperatorError: the settings are broken at the start, the driver is not usable, or the file is not writable.
            DriverCallFailed: the driver fails.
        """
        problem: list[OperatorError | DriverCallFailed] = []

        async def rounds() -> None:
            try:
                await self._rounds()
            except (OperatorError, DriverCallFailed) as error:
                problem.append(error)  # raised below: the group of tasks would wrap it

        await first(rounds(), self._stopped.wait())
        if problem:
            raise problem[0]

    async def _rounds(self) -> None:
        settings = await asyncio.to_thread(self._load)
        try:
            while True:
                await self._label(settings)
                if settings.is_oneshot:
                    return
                settings = await self._next(settings)
        finally:
            await self._remove(settings)

    async def _next(self, settings: FeatureSettings) -> FeatureSettings:
        """Wait for the next round; returns its settings."""
        if math.isinf(settings.sleep_s):
            await self._reload.wait()
        else:
            await first(self._reload.wait(), self._clock.sleep(settings.sleep_s))
        if not self._reload.is_set():
            return settings
        self._reload.clear()
        try:
            fresh = await asyncio.to_thread(self._load)
        except OperatorError as error:
            logger.error("the configuration is broken, so labels are made by the one before: %s", error)
            return settings
        self._started_s = None
        if fresh.output_file != settings.output_file:
            await self._remove(settings)
        return fresh

    async def _label(self, settings: FeatureSettings) -> None:
        if self._started_s is None:
            self._started_s = int(self._clock.now().timestamp())
        found = await find_labels(settings, self._root, timestamp_s=self._started_s, nvml=self._nvml)
        for warning in found.warnings:
            if warning not in self._told:  # the same one in each round is one line in the log
                self._told.add(warning)
                logger.warning("%s", warning)
        if settings.target is not None:
            await self._publish(found.labels, settings.target, is_only_round=settings.is_oneshot)
        elif settings.output_file:
            await asyncio.to_thread(write_feature_file, found.labels, Path(settings.output_file))
            logger.debug("%d labels are in %s", len(found.labels), settings.output_file)
        else:
            self._show(feature_text(found.labels))

    async def _publish(self, labels: Labels, target: FeatureTarget, *, is_only_round: bool) -> None:
        """Write the NodeFeature object. After the first time, a cluster that does not answer is asked again later."""
        # Imported here: a process that writes a file does without the megabytes of a client for HTTPS.
        from plugbay.plugins.nvidia.labels.publishing import FeaturePublisher

        is_first = self._publisher is None or self._publisher.target != target
        publisher = self._publisher
        if publisher is None or is_first:
            assert self._connect is not None
            publisher = FeaturePublisher(self._connect(), target)
        try:
            outcome = await asyncio.to_thread(publisher.publish, labels)
        except OperatorError as error:
            if is_first or is_only_round:
                raise
            logger.error("%s; its labels are those of an earlier round until the next one", error)
            return
        self._publisher = publisher
        level = logging.DEBUG if outcome.name == "UNCHANGED" else logging.INFO
        logger.log(level, "NodeFeature %s/%s is %s", target.namespace, target.name, outcome.value)

    async def _remove(self, settings: FeatureSettings) -> None:
        if not settings.removes_file or not settings.output_file:
            return
        try:
            await asyncio.to_thread(remove_feature_file, Path(settings.output_file))
        except PathUnusable as error:
            logger.error("%s; remove it, or the node keeps labels that nothing renews", error)
