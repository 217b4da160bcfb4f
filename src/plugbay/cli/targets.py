"""Which plugins a command is about: what ``serve`` and ``devices`` have in common."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plugbay.sdk.plugin import DevicePlugin

DESCRIPTION: Final = "TARGET is `directory`, a file with plugins (plugin.py), or module:object."


def add_targets(parser: argparse.ArgumentParser, *, help: str) -> None:
    parser.add_argument("targets", nargs="+", metavar="TARGET", help=help)


def add_directory_options(parser: argparse.ArgumentParser) -> None:
    directory = parser.add_argument_group("options of `directory`: every file in a directory is a device")
    directory.add_argument("--resource", metavar="R", help="resource name, such as example.com/gopher")
    directory.add_argument("--path", metavar="P", type=Path, help="the directory; it need not exist yet")
    directory.add_argument("--env", metavar="NAME", help="variable that names the devices to their container")


def load_targets(args: argparse.Namespace) -> list[DevicePlugin]:
    """The plugins that the arguments name, in their order. Loading runs what authors wrote.

    Raises:
        UsageError: options are missing, or of no use.
        PathUnusable: the directory is none.
        PluginLoadError: there is no usable plugin in a target.
    """
    import os
    import sys

    _check(args)
    sys.path.insert(0, os.getcwd())  # for module:object, wherever the command itself lies
    return [plugin for target in args.targets for plugin in _load(target, args)]


def _check(args: argparse.Namespace) -> None:
    from plugbay.errors import UsageError

    given = {f"--{name}": getattr(args, name) is not None for name in ("resource", "path", "env")}
    command = args.command_name
    if "directory" not in args.targets:
        if foreign := [name for name, is_given in given.items() if is_given]:
            raise UsageError(f"only `{command} directory` takes {', '.join(foreign)}")
    elif missing := [name for name, is_given in given.items() if not is_given]:
        raise UsageError(f"`{command} directory` needs {', '.join(missing)}")


def _load(target: str, args: argparse.Namespace) -> list[DevicePlugin]:
    from plugbay.errors import PathUnusable

    if target == "directory":
        from plugbay.plugins.directory.plugin import DirectoryPlugin

        try:
            if args.path.exists() and not args.path.is_dir():
                raise PathUnusable(str(args.path), "is not a directory")
        except PermissionError as error:
            raise PathUnusable(str(args.path), "closed to this user") from error
        return [DirectoryPlugin(args.resource, args.path.absolute(), env=args.env)]
    from plugbay.sdk.targets import load_plugins

    return load_plugins(target)
