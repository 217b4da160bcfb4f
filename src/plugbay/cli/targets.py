"""Which plugins a command is about: what ``serve`` and ``devices`` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plugbay.sdk.config import Entry
    from plugbay.sdk.config_file import ConfigFile
    from plugbay.sdk.plugin import DevicePlugin
    from plugbay.sdk.resources import PluginSource
    from plugbay.sdk.sources import Member

DIRECTORY: Final = "directory"
DESCRIPTION: Final = (
    "TARGET is `directory`, a file with plugins (plugin.py), or one plugin: plugin.py:object or module:object."
)


def add_targets(parser: argparse.ArgumentParser, *, help: str) -> None:
    """TARGETs and ``--config``; for a `CommandParser` that has ``takes_more="targets"``."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=help)
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML or JSON file with targets and their settings")


def add_directory_options(parser: argparse.ArgumentParser) -> None:
    directory = parser.add_argument_group("options of `directory`: every file in a directory is a device")
    directory.add_argument("--resource", metavar="R", help="resource name, such as example.com/gopher")
    directory.add_argument("--path", metavar="P", type=Path, help="the directory; it need not exist yet")
    directory.add_argument("--env", metavar="NAME", help="variable that names the devices to their container")


def load_targets(args: argparse.Namespace) -> list[tuple[str, Sequence[Member]]]:
    """The arguments' targets in their order, each with its plugins, the config file last. Loading runs authors' code.

    Raises:
        UsageError: options are missing, or of no use.
        PathUnusable: a file or directory cannot be used.
        InvalidDocument: something is wrong with the config file.
        PluginLoadError: there is no usable plugin in a target.
    """
    import os
    import sys

    _check(args)
    sys.path.insert(0, os.getcwd())  # for module:object, wherever the command itself lies
    targets: list[tuple[str, Sequence[Member]]] = [(target, _load(target, args)) for target in args.targets]
    if args.config is not None:
        targets.append((str(args.config), [config_file(args.config)]))
    return targets


def config_file(path: Path) -> ConfigFile:
    """The plugins of a config file, ready to be served; raises as `load_targets`."""
    from plugbay.sdk.config_file import ConfigFile

    path = path.absolute()
    return ConfigFile(path, _loader(path.parent))


def _check(args: argparse.Namespace) -> None:
    from plugbay.errors import UsageError

    given = {f"--{name}": getattr(args, name) is not None for name in ("resource", "path", "env")}
    command = args.command_name
    if not args.targets and args.config is None:
        raise UsageError(f"`{command}` needs a TARGET or --config FILE; see 'plugbay {command} --help'")
    if DIRECTORY not in args.targets:
        if foreign := [name for name, is_given in given.items() if is_given]:
            raise UsageError(f"only `{command} directory` takes {', '.join(foreign)}")
    elif missing := [name for name, is_given in given.items() if not is_given]:
        raise UsageError(f"`{command} directory` needs {', '.join(missing)}")


def _load(target: str, args: argparse.Namespace) -> Sequence[DevicePlugin | PluginSource]:
    if target == DIRECTORY:
        return [_directory(args.resource, args.path.absolute(), env=args.env)]
    from plugbay.sdk.targets import load_plugins

    return load_plugins(target)


def _loader(directory: Path) -> Callable[[Entry], Sequence[DevicePlugin | PluginSource]]:
    """What makes the plugins of a config file's entries; relative files are looked for in ``directory``."""
    from plugbay.plugins.directory.config import DirectorySettings
    from plugbay.sdk.config import settings_as
    from plugbay.sdk.targets import beside, load_plugins

    def load(entry: Entry) -> Sequence[DevicePlugin | PluginSource]:
        if entry.target == DIRECTORY:
            settings = settings_as(DirectorySettings, entry)
            return [_directory(settings.resource, directory / settings.path, env=settings.env)]
        return load_plugins(beside(entry.target, directory), entry.settings or None)

    return load


def _directory(resource: str, path: Path, *, env: str) -> DevicePlugin:
    from plugbay.errors import PathUnusable
    from plugbay.plugins.directory.plugin import DirectoryPlugin

    try:
        if path.exists() and not path.is_dir():
            raise PathUnusable(str(path), "is not a directory")
    except PermissionError as error:
        raise PathUnusable(str(path), "closed to this user") from error
    return DirectoryPlugin(resource, path, env=env)
