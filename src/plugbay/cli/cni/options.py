"""Options that the ``plugbay cni`` commands share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import duration_s, path_of
from plugbay.cli.arguments.parser import CommandParser

_CONFIG: Final = "/etc/cni/net.d"
_CACHE: Final = "/var/lib/cni"
_BINARIES: Final = ("/opt/cni/bin", "/usr/lib/cni")
"""The directory where engines look, and the one of Debian's package."""
_MAX_TIMEOUT_S: Final = 3600.0


def add_container(parser: CommandParser) -> None:
    parser.add_argument("container", metavar="CONTAINER", help="the container's ID")


def add_network(parser: CommandParser, *, default: str = "the first of the configuration directory") -> None:
    parser.add_argument("--network", metavar="NETWORK", help=f"its name, or a configuration file (default: {default})")


def add_arguments(parser: CommandParser) -> None:
    """Add the options that identify an attachment besides container and namespace, and those that plugins are told."""
    add_network(parser)
    parser.add_argument("--ifname", metavar="NAME", help="the interface in the container (default: eth0)")
    parser.add_argument(
        "--args", metavar="K=V", action="append", default=[], help="for CNI_ARGS; may be repeated, or joined by ';'"
    )
    parser.add_argument(
        "--capability",
        metavar="NAME=JSON",
        action="append",
        default=[],
        help="a capability argument, such as 'ips=[\"10.22.0.9\"]'; may be repeated",
    )
    add_wishes(parser)


def add_wishes(parser: CommandParser) -> None:
    parser.add_argument(
        "--port",
        metavar="[IP:]HOST:CONTAINER[/PROTOCOL]",
        action="append",
        default=[],
        help="a port of the host that is forwarded; may be repeated",
    )
    parser.add_argument(
        "--annotation",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a pod's annotation; only those that limit the bandwidth matter; may be repeated",
    )


def add_machine(parser: CommandParser) -> None:
    """Add the options for directories and for the time of a call."""
    parser.add_argument(
        "--conf-dir",
        metavar="DIR",
        type=path_of,
        default=Path(os.environ.get("NETCONFPATH") or _CONFIG),
        help=f"configuration files (default: $NETCONFPATH, else {_CONFIG})",
    )
    parser.add_argument(
        "--bin-dir",
        metavar="DIR",
        type=path_of,
        action="append",
        help=f"plugin binaries; may be repeated (default: $CNI_PATH, else {' and '.join(_BINARIES)})",
    )
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        type=path_of,
        default=Path(_CACHE),
        help="remembered results (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=_timeout_s,
        default=60.0,
        help="limit for one call of a plugin, which is killed then (default: 1m)",
    )


def add_json(parser: CommandParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("json",), default="", help="print JSON, an error of a plugin included"
    )


def _timeout_s(text: str) -> float:
    seconds = duration_s(text)
    if not 0 < seconds <= _MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"wants a time above 0 and up to 1h, found {text!r}")
    return seconds


def binary_directories(args: argparse.Namespace) -> list[Path]:
    """The directories with plugins."""
    if args.bin_dir:
        return list(args.bin_dir)
    path = os.environ.get("CNI_PATH", "")
    return [Path(each) for each in path.split(":") if each] or [Path(each) for each in _BINARIES]
