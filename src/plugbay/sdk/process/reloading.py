"""A target that is served anew whenever its author changes the code: for development."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from plugbay.errors import PlugbayError, PluginLoadError
from plugbay.ops.tasks import first
from plugbay.sdk.author.plugin import health_checks
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.author_modules import directory_of, failed_at, forget, neighbours, remember
from plugbay.sdk.process.sources import Member, known_plugins
from plugbay.sdk.process.targets import load_plugins
from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.1
"""Editors write in several steps; see `plugbay.sdk.process.config_file.SETTLE_S`."""

_State = Mapping[Path, tuple[int, int, int]]
"""The inode, size and time of change of each file."""


class ReloadedTarget:
    """A `Source`: the plugins of a target, loaded again when its file changes, or another Python file beside it.

    Code that cannot be loaded changes nothing: it is logged, and the code before goes on, if there is any. The first
    load is at once. Objects that modules have made, such as threads, live on.
    """

    def __init__(self, target: str) -> None:
        self.name = target
        self._members: tuple[Member, ...] = ()
        self._is_loaded = False
        self._asked = asyncio.Event()
        sys.dont_write_bytecode = True  # its times are in seconds, and code is edited faster than that
        self._seen: _State = _state(self._files())
        self._load(before={})
        self._see_more()

    @property
    def members(self) -> Sequence[Member]:
        return self._members

    def refresh(self) -> None:
        self._asked.set()

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        if self._is_loaded:
            changed()
        while True:
            files = await in_thread(self._files)
            with watches.watch({*files, *(each.parent for each in files)}) as changes:
                # It may have changed before it was watched.
                if await in_thread(_state, files) == self._seen:
                    await first(self._asked.wait(), changes.__anext__())
                    while await first(changes.__anext__(), timeout_s=SETTLE_S):
                        pass
                    self._asked.clear()
            state = await in_thread(lambda: _state(self._files()))
            if state == self._seen:
                continue
            edited = sorted(each.name for each in {*state, *self._seen} if state.get(each) != self._seen.get(each))
            self._seen = state
            is_new = await in_thread(self._reload)
            await in_thread(self._see_more)
            if is_new:
                logger.info("%s: %s changed; serving the new code", self.name, ", ".join(edited))
                changed()

    def _see_more(self) -> None:
        """The files that are loaded now; for those that were loaded before it is known how they were."""
        now = _state(self._files())
        self._seen = {file: self._seen.get(file, state) for file, state in now.items()}

    def _reload(self) -> bool:
        return self._load(before=forget(directory_of(self.name)))

    def _load(self, *, before: dict[str, ModuleType]) -> bool:
        """Load the plugins; returns whether there are new ones, and puts the modules ``before`` back if not."""
        try:
            members = tuple(load_plugins(self.name))
            for plugin in known_plugins(members):
                health_checks(plugin)
        except PlugbayError as error:
            directory = directory_of(self.name)
            then = "the code before goes on" if self._is_loaded else "nothing is served"
            logger.error("%s; %s until the file changes", _sentence(error, directory), then)
            if before:
                remember(directory, before)
            return False
        self._members, self._is_loaded = members, True
        return True

    def _files(self) -> list[Path]:
        """All files that may matter: the loaded ones, and files beside them, one of which may have failed to load."""
        directory = directory_of(self.name)
        return sorted({*directory.glob("*.py"), *neighbours(directory).values()})


def _state(files: Sequence[Path]) -> _State:
    found = {}
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            continue
        found[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _sentence(error: PlugbayError, directory: Path) -> str:
    place = failed_at(error, directory) if isinstance(error, PluginLoadError) else None
    if place is None or not isinstance(error, PluginLoadError):
        return str(error)
    return f"{os.path.relpath(place[0])}:{place[1]}: {error.problem}"
