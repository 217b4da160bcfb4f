"""``plugbay serve``: serve device plugins to a kubelet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from plugbay.cli.parsing import Subparsers, add_kubelet_root

if TYPE_CHECKING:
    from plugbay.sdk.plugin import DevicePlugin

_LEVELS = ("debug", "info", "warning", "error")


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="serve device plugins to a kubelet, or to `plugbay node up`",
        description="Serve device plugins until SIGTERM or Ctrl-C. TARGET is `directory`, a file with plugins "
        "(plugin.py), or module:object. SIGHUP looks for devices and registers again.",
        examples=(
            "plugbay serve gophers.py",
            "plugbay serve my_package.plugins:gophers",
            "plugbay serve directory --resource example.com/gopher --path /etc/gophers --env Gopher",
        ),
    )
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="what to serve")
    add_kubelet_root(parser)
    parser.add_argument(
        "--log-level",
        choices=_LEVELS,
        default="info",
        help="log what is at least this important (default: %(default)s)",
    )
    parser.add_argument(
        "--exit-on-refusal",
        action="store_true",
        help="end with an error when the kubelet refuses a registration, instead of asking again",
    )
    parser.add_argument(
        "--exit-if-none",
        action="store_true",
        help="end well when no plugin finds a device at first, instead of waiting for some",
    )
    directory = parser.add_argument_group("options of `directory`: every file in a directory is a device")
    directory.add_argument("--resource", metavar="R", help="resource name, such as example.com/gopher")
    directory.add_argument("--path", metavar="P", type=Path, help="the directory; it need not exist yet")
    directory.add_argument("--env", metavar="NAME", help="variable that names the devices to their container")


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop, or until an end that was asked for; returns 0 then."""
    import asyncio
    import os
    import sys

    from plugbay.cli.logs import configure_logs
    from plugbay.cli.roots import chosen_kubelet_root
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.endings import Endings, IfNone, OnRefusal
    from plugbay.sdk.runner import serve

    configure_logs(args.log_level, sys.stderr)
    _check(args)
    sys.path.insert(0, os.getcwd())  # for module:object, wherever the command itself lies
    plugins = [plugin for target in args.targets for plugin in _load(target, args)]
    endings = Endings(
        OnRefusal.EXIT if args.exit_on_refusal else OnRefusal.ASK_AGAIN,
        IfNone.EXIT if args.exit_if_none else IfNone.WAIT,
    )
    asyncio.run(serve(plugins, paths=KubeletPaths(chosen_kubelet_root(args)), endings=endings))
    return 0


def _check(args: argparse.Namespace) -> None:
    from plugbay.errors import UsageError

    given = {f"--{name}": getattr(args, name) is not None for name in ("resource", "path", "env")}
    if "directory" not in args.targets:
        if foreign := [name for name, is_given in given.items() if is_given]:
            raise UsageError(f"only `serve directory` takes {', '.join(foreign)}")
    elif missing := [name for name, is_given in given.items() if not is_given]:
        raise UsageError(f"`serve directory` needs {', '.join(missing)}")


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
