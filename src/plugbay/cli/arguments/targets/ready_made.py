"""The targets that come with plugbay: a table of them, each with options, settings and help in a module of its own.

A new one is a line of the table and a module with what `ReadyMade` has. The module is imported when the target is used.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast, runtime_checkable

from plugbay.cli.arguments.parser import CommandParser

if TYPE_CHECKING:
    from plugbay.sdk.process.config import ConfigEntry
    from plugbay.sdk.process.sources import Member

_MODULES: Final = {
    "directory": "plugbay.cli.arguments.targets.directory",
    "generic": "plugbay.cli.arguments.targets.generic",
    "nvidia": "plugbay.cli.arguments.targets.nvidia",
    "scratch": "plugbay.cli.arguments.targets.scratch",
}
READY_MADE: Final = tuple(_MODULES)


class ReadyMade(Protocol):
    """The interface of a target's module.

    Attributes:
        SUMMARY: what its devices are, as half a sentence.
        EXAMPLE: its name and options, for a command line.
    """

    SUMMARY: str
    EXAMPLE: str

    def add_options(self, parser: argparse._ActionsContainer) -> None:
        """Add its options, which no other argument of ``serve``, ``devices`` or ``cdi generate`` may be called.

        One may be ``--config``, with another destination: the target has a config file of its own then, and cannot be
        served together with a file of targets.
        """

    def from_options(self, args: argparse.Namespace) -> Sequence[Member]:
        """The plugins of such options.

        Raises:
            UsageError, InvalidResourceName, PathUnusable: they cannot be served.
        """

    def from_settings(self, entry: ConfigEntry, directory: Path, *, pod: Path | None) -> Sequence[Member]:
        """The plugins of an entry of a config file.

        Args:
            directory: that of the file, where relative paths start.
            pod: the place of that directory in the pods of a manifest, where relative paths of a node start, but not
                those of files that go along; None to serve this node.

        Raises:
            PluginLoadError: a setting is missing, of another type, or not among them.
            As `from_options`.
        """


@runtime_checkable
class BeginsEarly(Protocol):
    """A `ReadyMade` that needs another process, which can get ready while this one reads its modules."""

    def begin(self, args: argparse.Namespace) -> None:
        """Start it, and leave it in ``args`` for `from_options`. It ends with this process at the latest."""


@runtime_checkable
class TakesFiles(Protocol):
    """A `ReadyMade` with options that name files, which a pod has elsewhere.

    Attributes:
        FILE_OPTIONS: the options that name a file, or a directory whose files count; without dashes they are settings.
    """

    FILE_OPTIONS: Sequence[str]


@runtime_checkable
class TakesVariables(Protocol):
    """A `ReadyMade` for which variables of the environment stand for options that every target has."""

    def defaults(self, variables: Mapping[str, str]) -> Mapping[str, object]:
        """The defaults of such options, by their destinations."""


@runtime_checkable
class TakesLevels(Protocol):
    """A `ReadyMade` that takes further words for the level of the log.

    Attributes:
        LEVELS: our words by those.
    """

    LEVELS: Mapping[str, str]


def ready_made(target: str) -> ReadyMade:
    """The module of one of `READY_MADE`."""
    return cast("ReadyMade", import_module(_MODULES[target]))


class ReadyMadeParser(CommandParser):
    """Parses what follows the name of a target, such as ``plugbay serve directory``."""

    def knows(self, option: str) -> bool:
        """Whether it has such an option already."""
        return option in self._option_string_actions

    def take_words(self, option: str, words: Mapping[str, str]) -> None:
        """Let an option that takes one of several words take further ones, which mean some of the others."""
        action = self._option_string_actions[option]
        action.type = lambda word: words.get(word, word)
        action.choices = (*(action.choices or ()), *words)

    def parse_known_args(  # type: ignore[override]  # as in `CommandParser`
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        given = list(args or ())
        for at in self.heads(given):  # first, as one that is mistyped is missing as well
            if given[at].startswith("--") and not self.knows(given[at].partition("=")[0]):
                self.error(self._unknown(given[at]))
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        command = self.prog.partition(" ")[2]
        if message.startswith(_REQUIRED):
            message = f"`{command}` needs {message.removeprefix(_REQUIRED)}"
        elif message.startswith("unexpected argument"):
            message = f"{message}; `{command}` is one target, and several go into a config file"
        super().error(message)


_REQUIRED: Final = "the following arguments are required: "


def of_another_target(option: str, *, command: str) -> str:
    """Which targets take ``option``, as a sentence; empty if none does."""
    name = option.partition("=")[0]
    owners = [target for target in READY_MADE if name in _options(target)]
    takers = " and ".join(f"`{command} {owner}`" for owner in owners)
    return f"only {takers} take{'s' if len(owners) == 1 else ''} {name}" if owners else ""


def _options(target: str) -> frozenset[str]:
    parser = argparse.ArgumentParser(add_help=False)
    ready_made(target).add_options(parser)
    return frozenset(parser._option_string_actions)
