"""Serves the targets that a file names, and follows the file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from plugbay.errors import DuplicateResource, InvalidDocument, PathUnusable, PlugbayError
from plugbay.kernel.files import read_bytes
from plugbay.ops.tasks import first
from plugbay.sdk.author.plugin import health_checks
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.config import Config, ConfigEntry, difference, parse_config
from plugbay.sdk.process.sources import Member, known_plugins
from plugbay.sdk.watching import Watches
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.1
"""A file is read when it has been left alone for so long: editors and ``cp`` empty it first and fill it then."""

Load = Callable[[ConfigEntry], Sequence[Member]]
"""A function that makes the plugins of an entry."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A config, and the plugins that were made of each entry."""

    config: Config
    members: tuple[tuple[Member, ...], ...]


class ConfigFile:
    """A `Source` that changes as its file does.

    A file that is wrong changes nothing. One that is right restarts the plugins of the entries that have changed.

    Args:
        path: may be a link, or lie behind one, as the files of a ConfigMap do.

    Raises:
        PathUnusable: the file cannot be read.
        InvalidDocument: something is wrong with it, or an entry's plugins cannot be made.
    """

    def __init__(self, path: Path, load: Load) -> None:
        self.name = str(path)
        self._path = path
        self._load = load
        self._asked = asyncio.Event()
        self._last_problem = ""
        self._text = read_text(path)
        self._loaded = self._load_all(self._text, _Loaded(Config(()), ()))

    @property
    def members(self) -> Sequence[Member]:
        return tuple(member for members in self._loaded.members for member in members)

    @property
    def config(self) -> Config:
        return self._loaded.config

    @property
    def entries(self) -> Sequence[tuple[ConfigEntry, Sequence[Member]]]:
        """Every entry with its plugins."""
        return tuple(zip(self._loaded.config.plugins, self._loaded.members, strict=True))

    def refresh(self) -> None:
        self._asked.set()

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        with watches.watch([self._path]) as changes:
            changed()
            while True:
                await self._reload(changed)
                await first(self._asked.wait(), changes.__anext__())
                while await first(changes.__anext__(), timeout_s=SETTLE_S):
                    pass
                self._asked.clear()

    async def _reload(self, changed: Callable[[], None]) -> None:
        before = self._loaded
        try:
            text = await in_thread(read_text, self._path)
            if text == self._text and not self._last_problem:
                return
            loaded = await in_thread(self._load_all, text, before)
        except PlugbayError as error:
            self._report(str(error))
            return
        self._text, self._loaded, self._last_problem = text, loaded, ""
        found = difference(before.config, loaded.config)
        for line in found.lines() or ["read again; nothing to change"]:
            logger.info("%s: %s", self.name, line)
        changed()

    def _report(self, problem: str) -> None:
        if problem != self._last_problem:  # the same one over and over is one line in the log
            logger.error("configuration rejected, keeping the previous one: %s", problem)
        self._last_problem = problem

    def _load_all(self, text: str, before: _Loaded) -> _Loaded:
        """Make the plugins of all entries; entries that are in ``before`` too keep their plugins."""
        config = parse_config(text, source=self.name)
        old = list(zip(before.config.plugins, before.members, strict=True))
        members = []
        for index, entry in enumerate(config.plugins):
            same = next((each for each in old if each[0] == entry), None)
            if same is not None:
                old.remove(same)
            members.append(same[1] if same is not None else self._load_entry(entry, index))
        self._check([member for each in members for member in each])
        return _Loaded(config, tuple(members))

    def _load_entry(self, entry: ConfigEntry, index: int) -> tuple[Member, ...]:
        try:
            members = tuple(self._load(entry))
            for plugin in known_plugins(members):
                health_checks(plugin)
        except PlugbayError as error:
            raise InvalidDocument(str(error), f"plugins[{index}]", source=self.name) from error
        return members

    def _check(self, members: Sequence[Member]) -> None:
        names = [plugin.resource_name for plugin in known_plugins(members)]
        if len(set(names)) < len(names):
            twice = DuplicateResource(max(names, key=names.count))
            raise InvalidDocument(str(twice), "plugins", source=self.name) from twice


def read_text(path: Path) -> str:
    """The content of a config file.

    Raises:
        PathUnusable: it cannot be read, or is not a text.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PathUnusable(str(path), "is not UTF-8 text") from error
