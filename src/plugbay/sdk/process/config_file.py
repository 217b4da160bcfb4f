"""Serves the targets that a file names for this node, and follows the file and the labels of the node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NoReturn

from plugbay.errors import DuplicateResource, InvalidDocument, OperatorError, PathUnusable, PlugbayError, UsageError
from plugbay.kernel.files import read_bytes
from plugbay.ops.tasks import background, first
from plugbay.sdk.author.plugin import health_checks
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.config import Config, ConfigEntry, difference
from plugbay.sdk.process.node_configs import (
    Choice,
    ConfigsByNode,
    choices_of_labels,
    choose,
    choose_without_labels,
    parse_configs,
)
from plugbay.sdk.process.node_labels import NODE_NAME, OwnNodeLabels, ThisNode
from plugbay.sdk.process.sources import ConfigState, Member, known_plugins
from plugbay.sdk.watching import Watches
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.1
"""A file is read when it has been left alone for so long: editors and ``cp`` empty it first and fill it then."""

Load = Callable[[ConfigEntry], Sequence[Member]]
"""A function that makes the plugins of an entry."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The config of this node, and the plugins that were made of each entry."""

    choice: Choice
    members: tuple[tuple[Member, ...], ...]


_NOTHING: Final = _Loaded(Choice(Config(())), ())


class ConfigFile:
    """A `Source` that changes as its file does, and as the labels of the node do if these choose among its configs.

    A file that is wrong changes nothing. One that is right restarts the plugins of the entries that have changed.

    Args:
        path: may be a link, or lie behind one, as the files of a ConfigMap do.
        node: this one.

    Raises:
        PathUnusable: the file cannot be read.
        InvalidDocument: something is wrong with it, or an entry's plugins cannot be made.
        UsageError: it has configs for certain nodes, and it is not known which one this is.
    """

    def __init__(self, path: Path, load: Load, node: ThisNode) -> None:
        self.name = str(path)
        self._path = path
        self._load = load
        self._node = node
        self._labels = OwnNodeLabels(node, f"{path} chooses by labels of the node")
        self._asked = asyncio.Event()
        self._problem = ""
        self._text = read_text(path)
        self._configs = parse_configs(self._text, source=self.name)
        self._check_name(self._configs)
        self._loaded: _Loaded | None = None
        if not self._configs.wants_labels:
            self._loaded = self._load_all(self._configs, _NOTHING)

    @property
    def members(self) -> Sequence[Member]:
        """All plugins of this node; none while its labels are not known."""
        return tuple(member for members in self._current.members for member in members)

    @property
    def entries(self) -> Sequence[tuple[ConfigEntry, Sequence[Member]]]:
        """Every entry with its plugins."""
        return tuple(zip(self._current.choice.config.plugins, self._current.members, strict=True))

    @property
    def config_state(self) -> ConfigState:
        """The config in use, and what keeps a newer one from being used."""
        problem = self._problem or (self._labels.problem if self._configs.wants_labels else "")
        return ConfigState(self.name, None if self._loaded is None else self._loaded.choice.name, problem)

    async def load_once(self) -> None:
        """Ask for the labels of the node if they are wanted, and load its config: for a look without serving.

        Raises:
            OperatorError: the labels cannot be read, or no config is for the node, or it cannot be loaded.
        """
        if self._loaded is None:
            await self._labels.read()
            self._loaded = await in_thread(self._load_all, self._configs, _NOTHING)

    async def load_as_known(self) -> Sequence[str]:
        """As `load_once`, but outside a cluster for a node without labels.

        Returns:
            Sentences about the config of a node that has some; none if they were asked for, or do not matter.

        Raises:
            OperatorError: as `load_once`.
        """
        if self._loaded is not None or self._node.cluster is not None:
            await self.load_once()
            return ()
        choice = choose_without_labels(self._configs, self._node.name)
        self._loaded = await in_thread(self._load_choice, choice, _NOTHING)
        node = self._node.name
        first = f"the labels of node {node} are not known outside a cluster; this is for a node without them"
        return [f"{self.name}: {each}" for each in (first, *choices_of_labels(self._configs, node))]

    def refresh(self) -> None:
        self._asked.set()

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        problem: OperatorError | None = None
        async with AsyncExitStack() as up:
            changes = up.enter_context(watches.watch([self._path]))
            following: AsyncExitStack | None = None
            if self._loaded is not None:
                changed()
            while problem is None:
                try:
                    await self._reload(changed)
                except OperatorError as error:
                    problem = error  # raised below: the group of a task here would wrap it
                    continue
                following = await self._follow_labels(following, up)
                await first(self._asked.wait(), changes.__anext__())
                while await first(changes.__anext__(), timeout_s=SETTLE_S):
                    pass
                self._asked.clear()
        assert problem is not None
        raise problem

    async def _follow_labels(self, following: AsyncExitStack | None, up: AsyncExitStack) -> AsyncExitStack | None:
        """Follow the labels of the node while they are wanted; takes and returns what ends that."""
        if self._configs.wants_labels and following is None:
            following = await up.enter_async_context(AsyncExitStack())
            work = self._labels.follow(self._asked.set)
            await following.enter_async_context(background(work, name=f"labels for {self.name}"))
        elif not self._configs.wants_labels and following is not None:
            await following.aclose()
            following = None
        return following

    @property
    def _current(self) -> _Loaded:
        return _NOTHING if self._loaded is None else self._loaded

    async def _reload(self, changed: Callable[[], None]) -> None:
        """Take over the file, and the choice of the labels, if they have changed and are right.

        Raises:
            OperatorError: they are wrong, and there is nothing before.
        """
        before = self._current
        try:
            text = await in_thread(read_text, self._path)
            is_new = text != self._text or bool(self._problem)
            configs = parse_configs(text, source=self.name) if is_new else self._configs
            self._check_name(configs)
            if configs.wants_labels and self._labels.labels is None:
                self._text, self._configs, self._problem = text, configs, ""
                return  # it is called again as soon as they are known
            if not is_new and self._loaded is not None and self._choice_of(configs) == before.choice:
                return
            loaded: _Loaded = await in_thread(self._load_all, configs, before)
        except PlugbayError as error:
            if self._loaded is None and isinstance(error, OperatorError):
                raise
            self._report(str(error))
            return
        self._text, self._configs, self._loaded, self._problem = text, configs, loaded, ""
        self._tell(before.choice, loaded.choice)
        changed()

    def _tell(self, before: Choice, after: Choice) -> None:
        if after.why and (before.name, before.why) != (after.name, after.why):
            which = f"config {after.name}" if after.name else "the config without a name"
            logger.info("%s: node %s gets %s: %s", self.name, self._node.name, which, after.why)
        for line in difference(before.config, after.config).lines() or ["read again; nothing to change"]:
            logger.info("%s: %s", self.name, line)

    def _report(self, problem: str) -> None:
        if problem != self._problem:  # the same one over and over is one line in the log
            logger.error("configuration rejected, keeping the previous one: %s", problem)
        self._problem = problem

    def _check_name(self, configs: ConfigsByNode) -> None:
        if (configs.wants_name or configs.wants_labels) and not self._node.name:
            raise UsageError(f"{self.name} has configs for certain nodes, and {NODE_NAME} does not say which this is")

    def _choice_of(self, configs: ConfigsByNode) -> Choice:
        return choose(configs, self._node.name, self._labels.labels or {})

    def _load_all(self, configs: ConfigsByNode, before: _Loaded) -> _Loaded:
        return self._load_choice(self._choice_of(configs), before)

    def _load_choice(self, choice: Choice, before: _Loaded) -> _Loaded:
        """Make the plugins of all entries; entries that are in ``before`` too keep their plugins."""
        old = list(zip(before.choice.config.plugins, before.members, strict=True))
        members = []
        for index, entry in enumerate(choice.config.plugins):
            same = next((each for each in old if each[0] == entry), None)
            if same is not None:
                old.remove(same)
            place = f"{choice.place}[{index}]"
            members.append(same[1] if same is not None else load_entry(self._load, entry, place, self.name))
        _check([member for each in members for member in each], choice.place, self.name)
        return _Loaded(choice, tuple(members))


def plugins_of_all_nodes(path: Path, load: Load) -> list[Member]:
    """The plugins of all configs of a file, to see what they need; nodes with equal entries share their plugins.

    Raises:
        PathUnusable, InvalidDocument: as `ConfigFile`.
    """
    members: dict[str, list[Member]] = {}
    made: list[tuple[ConfigEntry, tuple[Member, ...]]] = []
    for place, entry in parse_configs(read_text(path), source=str(path)).entries():
        same = next((each for known, each in made if known == entry), None)
        if same is None:
            same = load_entry(load, entry, place, str(path))
            made.append((entry, same))
        members.setdefault(place.rpartition("[")[0], []).extend(same)
    for place, of_config in members.items():
        _check(of_config, place, str(path))
    return [member for _, of_entry in made for member in of_entry]


def load_entry(load: Load, entry: ConfigEntry, place: str, source: str) -> tuple[Member, ...]:
    """The plugins of an entry.

    Raises:
        InvalidDocument: they cannot be made.
    """
    try:
        members = tuple(load(entry))
        for plugin in known_plugins(members):
            health_checks(plugin)
    except PlugbayError as error:
        raise InvalidDocument(str(error), place, source=source) from error
    return members


def _check(members: Sequence[Member], place: str, source: str) -> None:
    names = [plugin.resource_name for plugin in known_plugins(members)]
    if len(set(names)) < len(names):
        twice = DuplicateResource(max(names, key=names.count))
        raise InvalidDocument(str(twice), place, source=source) from twice


def read_text(path: Path) -> str:
    """The content of a config file.

    Raises:
        PathUnusable: the file cannot be read, or is not a text.
    """
    try:
        content = read_bytes(path)
        return content.decode("utf-8-sig")
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PathUnusable(str(path), f"is not UTF-8 text, by line {line}; save it as UTF-8") from error
