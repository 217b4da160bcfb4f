"""Load the plugins that a command is about, for ``serve``, ``devices`` and ``cdi generate``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.ready_made import (
    READY_MADE,
    BeginsEarly,
    ReadyMadeParser,
    TakesLevels,
    TakesVariables,
    of_another_target,
    ready_made,
)

if TYPE_CHECKING:
    from plugbay.sdk.process.config import ConfigEntry
    from plugbay.sdk.process.config_file import ConfigFile
    from plugbay.sdk.process.sources import Member

_CONFIG_ENDINGS: Final = (".yaml", ".yml", ".json")
_LOG_LEVEL: Final = "--log-level"
DESCRIPTION: Final = (
    f"TARGET is {', '.join(f'`{each}`' for each in READY_MADE)}, a file with plugins (plugin.py), or one plugin: "
    "plugin.py:object or module:object."
)


def add_targets(
    parser: CommandParser,
    *,
    help: str,
    about: str,
    add_options: Callable[[argparse._ActionsContainer], object],
    needs: str = "",
) -> None:
    """TARGETs and ``--config``; for a `CommandParser` that has ``takes_more="targets"``.

    Args:
        about: what the command does, for the help of ready-made targets: a sentence without its end.
        add_options: adds the options that the command has besides, whatever its target.
        needs: those of them that an example must have.
    """
    command = parser.prog.partition(" ")[2]

    def of_ready_made(target: str) -> CommandParser:
        module = ready_made(target)
        own = ReadyMadeParser(prog=f"{parser.prog} {target}")
        own.describe(
            f"{about}: {module.SUMMARY}.",
            examples=[" ".join(filter(None, (parser.prog, module.EXAMPLE, needs)))],
            run=parser.get_default("run"),
        )
        own.set_defaults(targets_of=command, plugins=None, reload=False, targets=[target], config=None)
        own.explain_unknown = partial(of_another_target, command=command)
        module.add_options(own)
        others = own.add_argument_group(f"options of every target of `{command}`")
        if not own.knows("--config"):  # a target may call a file of its own so
            add_config(others)
        add_options(others)
        if isinstance(module, TakesLevels) and own.knows(_LOG_LEVEL):
            own.take_words(_LOG_LEVEL, module.LEVELS)
        if isinstance(module, TakesVariables):
            own.set_defaults(**module.defaults(os.environ))
        return own

    parser.set_defaults(targets_of=command, plugins=None, reload=False)
    parser.targets = {target: partial(of_ready_made, target) for target in READY_MADE}
    parser.explain_unknown = partial(of_another_target, command=command)
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"{help}; {' and '.join(f'`{parser.prog} {each} --help`' for each in READY_MADE)} show their options",
    )
    add_config(parser)
    add_options(parser)


def add_config(parser: argparse._ActionsContainer) -> None:
    """``--config``, for `load_targets`."""
    parser.add_argument(
        "--config", metavar="FILE", type=path_of, help="YAML or JSON file with targets and their settings"
    )


def begin_targets(args: argparse.Namespace) -> None:
    """Begin with what takes time besides this process, for `load_targets` to take over. To be called first of all."""
    for target in args.targets:
        if target in READY_MADE and isinstance(module := ready_made(target), BeginsEarly):
            module.begin(args)


def load_targets(args: argparse.Namespace, *, pod: Path | None = None) -> list[tuple[str, Sequence[Member]]]:
    """The arguments' targets in their order, each with its plugins, the config file last. Loading runs authors' code.

    The plugins that ``args.plugins`` has, under one name, are served if there is no config file.

    Args:
        pod: the place of the config file's directory in the pods of a manifest; None to serve this node.

    Raises:
        UsageError: options are missing, or of no use.
        PathUnusable: a file or directory cannot be used.
        InvalidDocument: something is wrong with the config file.
        PluginLoadError: a target has no usable plugin.
    """
    import sys

    _check(args)
    sys.path.insert(0, os.getcwd())  # for module:object, wherever the command itself lies
    targets: list[tuple[str, Sequence[Member]]] = [(target, _load(target, args)) for target in args.targets]
    if args.config is not None:
        file: Sequence[Member] = (
            [config_file(args.config)] if pod is None else plugins_of_all_nodes(args.config, pod=pod)
        )
        targets.append((str(args.config), file))
    elif args.plugins is not None:
        targets.append(args.plugins)
    return targets


def config_file(path: Path) -> ConfigFile:
    """The plugins of a config file on this node, ready to be served; raises as `load_targets`."""
    from plugbay.sdk.process.config_file import ConfigFile
    from plugbay.sdk.process.node_labels import this_node

    path = path.absolute()
    return ConfigFile(path, _loader(path.parent), this_node(os.environ))


def plugins_of_all_nodes(path: Path, *, pod: Path | None = None) -> Sequence[Member]:
    """The plugins of a config file on any node, to see what they need; raises as `load_targets`."""
    from plugbay.sdk.process import config_file

    path = path.absolute()
    return config_file.plugins_of_all_nodes(path, _loader(path.parent, pod))


def _check(args: argparse.Namespace) -> None:
    from plugbay.errors import UsageError

    command = args.targets_of
    if not args.targets and args.config is None and args.plugins is None:
        raise UsageError(f"`{command}` needs a TARGET or --config FILE; see 'plugbay {command} --help'")
    if configs := [each for each in args.targets if each.endswith(_CONFIG_ENDINGS)]:
        raise UsageError(f"{configs[0]} looks like a config file; give it with --config")
    if args.reload and not args.targets:
        raise UsageError("--reload follows the code of TARGETs; a config file is followed without it")
    if len(args.targets) > 1 and (own := [each for each in args.targets if each in READY_MADE]):
        raise UsageError(f"`{command} {own[0]}` is one target, with options of its own; several go into a config file")


def _load(target: str, args: argparse.Namespace) -> Sequence[Member]:
    if target in READY_MADE:
        return ready_made(target).from_options(args)
    from plugbay.sdk.process.targets import load_plugins

    _check_form(target)
    if args.reload:
        from plugbay.sdk.process.reloading import ReloadedTarget

        return [ReloadedTarget(target)]
    return load_plugins(target)


def _check_form(target: str) -> None:
    """The loader would say the same, but does not know the ready-made targets."""
    from plugbay.errors import PluginLoadError

    if not target.endswith(".py") and ":" not in target:
        raise PluginLoadError(target, f"a target is {', '.join(READY_MADE)}, FILE.py, FILE.py:object or module:object")


def _loader(directory: Path, pod: Path | None = None) -> Callable[[ConfigEntry], Sequence[Member]]:
    """The function that makes the plugins of a config file's entries; relative paths of code start at ``directory``."""
    from plugbay.sdk.process.targets import beside, load_plugins

    def load(entry: ConfigEntry) -> Sequence[Member]:
        if entry.target in READY_MADE:
            return ready_made(entry.target).from_settings(entry, directory, pod=pod)
        _check_form(entry.target)
        return load_plugins(beside(entry.target, directory), entry.settings or None)

    return load
