"""The configuration of a node while it is served: read at the start, and again whenever it may have changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from plugbay.errors import OperatorError, UsageError
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.printing import printed
from plugbay.plugins.nvidia.config.resource_names import ResourcePatterns
from plugbay.plugins.nvidia.config.switching import ActiveConfig
from plugbay.plugins.nvidia.serving.settings import NodeSettings, load_active
from plugbay.sdk.hooks.calls import in_thread

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
        read_labels: gives the labels of a node, and blocks meanwhile; None to ask the cluster.

    Attributes:
        active: the configuration in use; None before the first one is read.

    Raises:
        OperatorError: the configuration is broken.
    """

    def __init__(self, settings: NodeSettings, read_labels: Callable[[str], Mapping[str, str]] | None) -> None:
        self.active: ActiveConfig | None = None
        self._settings = settings
        self._named = settings.named
        self._read_labels = read_labels
        if self._named is None:
            self.active = load_active(settings, None, None)

    @property
    def is_named(self) -> bool:
        """Whether a label of the node chooses the configuration, of whose changes nothing tells."""
        return self._named is not None

    async def read(self) -> str:
        """Read the configuration anew; returns why it could not be looked for, or an empty text.

        Raises:
            OperatorError: it is broken, and there is none before.
        """
        before = self.active
        try:
            labels = await in_thread(self._labels) if self.is_named else None
            active: ActiveConfig = await in_thread(load_active, self._settings, before, labels)
        except OperatorError as error:
            if before is None:
                raise
            return str(error)
        self.active = active
        if before is None or active != before:
            (logger.error if active.refusal else logger.info)("%s", active.sentence())
        return ""

    def _labels(self) -> Mapping[str, str]:
        """The labels of the node, asked before anything is chosen by them. Blocks."""
        named = self._named
        assert named is not None
        if not named.node_name:
            raise UsageError("a label of the node is to choose the configuration, and --node-name does not say which")
        if self._read_labels is not None:
            return self._read_labels(named.node_name)
        # Imported here: most nodes do without the megabytes of a client for HTTPS.
        from plugbay.plugins.nvidia.platform.cluster import cluster_of

        purpose = "a label of the node is to choose the configuration"
        return cluster_of(self._settings.variables, purpose).labels_of(named.node_name)
