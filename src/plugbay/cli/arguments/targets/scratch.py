"""``scratch``: disks that are empty whenever they are given away."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import path_of

if TYPE_CHECKING:
    from plugbay.sdk.author.plugin import DevicePlugin
    from plugbay.sdk.process.config import ConfigEntry

SUMMARY: Final = "disks that are empty whenever they are given away"
EXAMPLE: Final = "scratch --resource example.com/scratch --directory /srv/scratch --size 10Gi --count 4"


def add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--resource", metavar="R", required=True, help="resource name, such as example.com/scratch")
    parser.add_argument(
        "--directory",
        metavar="DIR",
        required=True,
        type=path_of,
        help="where the disks' files are, and nothing else",
    )
    parser.add_argument(
        "--size",
        metavar="BYTES",
        required=True,
        help="size of a disk, such as 64Mi; the file system must have such files",
    )
    parser.add_argument("--count", metavar="N", required=True, type=int, help="how many disks")
    parser.add_argument(
        "--partitions",
        metavar="N",
        type=int,
        default=0,
        help="offer each disk in N parts too, as the resource R-partition; a disk is used one way at a time",
    )


def from_options(args: argparse.Namespace) -> Sequence[DevicePlugin]:
    place = args.directory.absolute()
    return _plugins(args.resource, place, size=args.size, count=args.count, partitions=args.partitions)


def from_settings(entry: ConfigEntry, directory: Path, *, pod: Path | None) -> Sequence[DevicePlugin]:
    from plugbay.plugins.scratch.config import ScratchSettings
    from plugbay.sdk.process.config import settings_as

    wanted = settings_as(ScratchSettings, entry)
    place = (pod or directory) / wanted.directory
    return _plugins(wanted.resource, place, size=wanted.size, count=wanted.count, partitions=wanted.partitions)


def _plugins(resource: str, directory: Path, *, size: str, count: int, partitions: int) -> Sequence[DevicePlugin]:
    from plugbay.kernel.loop import LoopDevices
    from plugbay.plugins.scratch.config import layout_of
    from plugbay.plugins.scratch.plugin import scratch_plugins

    layout = layout_of(resource, size=size, count=count, partitions=partitions)
    return scratch_plugins(layout, directory, LoopDevices(Path("/dev"), Path("/sys")))
