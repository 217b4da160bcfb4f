"""The configuration of a node while it is served: read at the start, and again whenever it may have changed."""

from __future__ import annotations

import logging
from dataclasses import replace

from plugbay.errors import OperatorError
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.printing import printed
from plugbay.plugins.nvidia.config.resource_names import ResourcePatterns
from plugbay.plugins.nvidia.config.switching import ActiveConfig
from plugbay.plugins.nvidia.serving.settings import NodeSettings, load_active
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.node_labels import OwnNodeLabels, ThisNode
from plugbay.sdk.process.sources import ConfigState

logger = logging.getLogger(__name__)


class PrintedConfiguration:
    """Prints the configuration once, also when the start fails then: it may say why."""

    def __init__(self) -> None:
        self._is_told = False

    def tell(self, configuration: Configuration, patterns: ResourcePatterns) -> None:
        """Print it, unless that was done."""
        if not self._is_told:
            self._is_told = True
            logger.info("Running with config:\n%s", printed(configuration, patterns))


class ConfigReader:
    """Reads the configuration; a broken one changes nothing but the log.

    Args:
        node: the node whose labels count.

    Attributes:
        labels: of the node, if one of them chooses the configuration; else None.
        active: the configuration in use; None before the first one is read.

    Raises:
        OperatorError: the configuration is broken.
    """

    def __init__(self, settings: NodeSettings, node: ThisNode) -> None:
        self.active: ActiveConfig | None = None
        self.labels: OwnNodeLabels | None = None
        self._settings = settings
        if (named := settings.named) is None:
            self.active = load_active(settings, None, None)
        else:
            own = replace(node, name=named.node_name)
            self.labels = OwnNodeLabels(own, f"label {named.rules.label} of the node is to choose the configuration")

    @property
    def state(self) -> ConfigState | None:
        """The configuration in use, and what keeps a newer one from being used."""
        if not self._settings.watched:
            return None
        source = str(self._settings.watched[0])
        problem = "" if self.labels is None else self.labels.problem
        if self.active is None:
            return ConfigState(source, None, problem)
        refusal = self.active.refusal
        return ConfigState(source, self.active.name or "", refusal.problem if refusal is not None else problem)

    async def read(self) -> str:
        """Read the configuration anew; returns why it could not be looked for, or an empty text.

        Raises:
            OperatorError: it is broken, and there is none before.
        """
        before = self.active
        try:
            labels = None if self.labels is None else self.labels.labels or await self.labels.read()
            active: ActiveConfig = await in_thread(load_active, self._settings, before, labels)
        except OperatorError as error:
            if before is None:
                raise
            return str(error)
        self.active = active
        if before is None or active != before:
            (logger.error if active.refusal else logger.info)("%s", active.sentence())
        return ""
