"""The rules while they are served: read at the start, and again whenever their file may have changed."""

from __future__ import annotations

import logging

from plugbay.errors import OperatorError
from plugbay.plugins.generic.config.rules import Entry, GenericConfig, NameSpelling
from plugbay.plugins.generic.serving.settings import GenericSettings
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.sources import ConfigState

logger = logging.getLogger(__name__)


class ActiveRules:
    """The config in use; a broken newer one changes nothing but what is told.

    Attributes:
        config: in use.

    Raises:
        OperatorError: the first one is broken.
    """

    def __init__(self, settings: GenericSettings) -> None:
        self._settings = settings
        self._problem = ""
        self.config: GenericConfig = settings.load()
        _tell_warnings(self.config)

    @property
    def state(self) -> ConfigState | None:
        """The config for pages and metrics; None if it comes from no file."""
        if self._settings.file is None:
            return None
        return ConfigState(str(self._settings.file), "", self._problem)

    async def read(self) -> None:
        """Read the config anew, and log what became of it."""
        try:
            config: GenericConfig = await in_thread(self._settings.load)
        except OperatorError as error:
            problem = "; ".join(str(error).splitlines())
            if problem != self._problem:  # the same one over and over is one line in the log
                logger.error("configuration rejected, keeping the previous one: %s", problem)
            self._problem = problem
            return
        if self._problem and config == self.config:
            logger.info("%s is right again; it says what is in use", config.source)
        self._problem = ""
        if config == self.config:
            return  # the same object stays, so that nothing is looked at anew
        _tell_warnings(config)
        for line in changed_entries(self.config, config):
            logger.info("%s: %s", config.source, line)
        self.config = config


def _tell_warnings(config: GenericConfig) -> None:
    for each in config.warnings:
        logger.warning("%s", each.sentence)


def changed_entries(before: GenericConfig, after: GenericConfig) -> list[str]:
    """A line for each entry that is not in both configs alike."""
    old = {_title(entry): entry for entry in before.entries}
    new = {_title(entry): entry for entry in after.entries}
    return [
        *(f"removed: {title}" for title in old if title not in new),
        *(f"changed: {title}" for title in new if title in old and new[title] != old[title]),
        *(f"added: {title}" for title in new if title not in old),
    ]


def _title(entry: Entry) -> str:
    return entry.domain if entry.spelling is NameSpelling.OF_FILES else f"{entry.domain}/{entry.name}"
