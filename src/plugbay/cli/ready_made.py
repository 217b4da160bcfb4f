"""The targets that come with plugbay, their options on a command line, and their settings in a config file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.parsing import path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugbay.sdk.config import Entry
    from plugbay.sdk.plugin import DevicePlugin

DIRECTORY: Final = "directory"
SCRATCH: Final = "scratch"

_NEEDED: Final = {
    DIRECTORY: ("resource", "path", "env"),
    SCRATCH: ("resource", "directory", "size", "count"),
}
_OPTIONAL: Final[dict[str, tuple[str, ...]]] = {DIRECTORY: (), SCRATCH: ("partitions",)}
READY_MADE: Final = tuple(_NEEDED)


def is_ready_made(target: str) -> bool:
    return target in _NEEDED


def add_ready_made_options(parser: argparse.ArgumentParser) -> None:
    both = parser.add_argument_group("options of `directory` and `scratch`")
    both.add_argument("--resource", metavar="R", help="resource name, such as example.com/gopher")
    directory = parser.add_argument_group("options of `directory`: every file in a directory is a device")
    directory.add_argument("--path", metavar="P", type=path_of, help="the directory; it need not exist yet")
    directory.add_argument("--env", metavar="NAME", help="variable that names the devices to their container")
    scratch = parser.add_argument_group("options of `scratch`: disks that are empty whenever they are given away")
    scratch.add_argument(
        "--directory", metavar="DIR", type=path_of, help="where the disks' files are, and nothing else"
    )
    scratch.add_argument(
        "--size", metavar="BYTES", help="size of a disk, such as 64Mi; the file system must have such files"
    )
    scratch.add_argument("--count", metavar="N", type=int, help="how many disks")
    scratch.add_argument(
        "--partitions",
        metavar="N",
        type=int,
        help="offer each disk in N parts too, as the resource R-partition; a disk is used one way at a time",
    )


def check_ready_made(args: argparse.Namespace) -> None:
    """Raises `UsageError` unless the options are those of the one ready-made target among the arguments, if any."""
    from plugbay.errors import UsageError

    command = args.targets_of
    targets = [each for each in dict.fromkeys(args.targets) if is_ready_made(each)]
    if len(targets) > 1:
        raise UsageError(f"give {' and '.join(f'`{each}`' for each in targets)} in a config file: they share options")
    taken = [name for target in targets for name in (*_NEEDED[target], *_OPTIONAL[target])]
    given = [name for name in _names() if getattr(args, name) is not None]
    if foreign := [name for name in given if name not in taken]:
        owners = _owners(foreign[0])
        theirs = ", ".join(f"--{name}" for name in foreign if _owners(name) == owners)
        takers = " and ".join(f"`{command} {owner}`" for owner in owners)
        raise UsageError(f"only {takers} take{'s' if len(owners) == 1 else ''} {theirs}")
    for target in targets:
        if missing := [f"--{name}" for name in _NEEDED[target] if name not in given]:
            raise UsageError(f"`{command} {target}` needs {', '.join(missing)}")


def from_options(target: str, args: argparse.Namespace) -> Sequence[DevicePlugin]:
    """The plugins of a ready-made target whose options `check_ready_made` let pass.

    Raises:
        UsageError, InvalidResourceName, PathUnusable: they cannot be served.
    """
    if target == DIRECTORY:
        return [_directory(args.resource, args.path.absolute(), env=args.env)]
    place = args.directory.absolute()
    return _scratch(args.resource, place, size=args.size, count=args.count, partitions=args.partitions or 0)


def from_settings(entry: Entry, directory: Path) -> Sequence[DevicePlugin]:
    """As `from_options`, of a config file's entry; relative paths start at ``directory``.

    Raises:
        PluginLoadError: a setting is missing, of another type, or not among them.
    """
    from plugbay.sdk.config import settings_as

    if entry.target == DIRECTORY:
        from plugbay.plugins.directory.config import DirectorySettings

        of_directory = settings_as(DirectorySettings, entry)
        return [_directory(of_directory.resource, directory / of_directory.path, env=of_directory.env)]
    from plugbay.plugins.scratch.config import ScratchSettings

    wanted = settings_as(ScratchSettings, entry)
    place = directory / wanted.directory
    return _scratch(wanted.resource, place, size=wanted.size, count=wanted.count, partitions=wanted.partitions)


def _names() -> list[str]:
    return list(dict.fromkeys(name for target in _NEEDED for name in (*_NEEDED[target], *_OPTIONAL[target])))


def _owners(name: str) -> list[str]:
    return [target for target in _NEEDED if name in (*_NEEDED[target], *_OPTIONAL[target])]


def _directory(resource: str, path: Path, *, env: str) -> DevicePlugin:
    from plugbay.errors import PathUnusable
    from plugbay.plugins.directory.plugin import DirectoryPlugin

    try:
        if path.exists() and not path.is_dir():
            raise PathUnusable(str(path), "is not a directory")
    except PermissionError as error:
        raise PathUnusable(str(path), "closed to this user") from error
    return DirectoryPlugin(resource, path, env=env)


def _scratch(resource: str, directory: Path, *, size: str, count: int, partitions: int) -> Sequence[DevicePlugin]:
    from plugbay.kernel.loop import LoopDevices
    from plugbay.plugins.scratch.config import layout_of
    from plugbay.plugins.scratch.plugin import scratch_plugins

    layout = layout_of(resource, size=size, count=count, partitions=partitions)
    return scratch_plugins(layout, directory, LoopDevices(Path("/dev"), Path("/sys")))
