"""``directory``: every file in a directory is a device."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import path_of

if TYPE_CHECKING:
    from plugbay.sdk.author.plugin import DevicePlugin
    from plugbay.sdk.process.config import ConfigEntry

SUMMARY: Final = "every file in a directory is a device"
EXAMPLE: Final = "directory --resource example.com/gopher --path /etc/gophers --env Gopher"


def add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--resource", metavar="R", required=True, help="resource name, such as example.com/gopher")
    parser.add_argument("--path", metavar="P", required=True, type=path_of, help="the directory; it need not exist yet")
    parser.add_argument(
        "--env", metavar="NAME", required=True, help="variable that names the devices to their container"
    )


def from_options(args: argparse.Namespace) -> Sequence[DevicePlugin]:
    return [_plugin(args.resource, args.path.absolute(), env=args.env)]


def from_settings(entry: ConfigEntry, directory: Path, *, pod: Path | None) -> Sequence[DevicePlugin]:
    from plugbay.plugins.directory.config import DirectorySettings
    from plugbay.sdk.process.config import settings_as

    settings = settings_as(DirectorySettings, entry)
    return [_plugin(settings.resource, (pod or directory) / settings.path, env=settings.env)]


def _plugin(resource: str, path: Path, *, env: str) -> DevicePlugin:
    from plugbay.errors import PathUnusable
    from plugbay.plugins.directory.plugin import DirectoryPlugin

    try:
        if path.exists() and not path.is_dir():
            raise PathUnusable(str(path), "is not a directory")
    except PermissionError as error:
        raise PathUnusable(str(path), "closed to this user") from error
    return DirectoryPlugin(resource, path, env=env)
