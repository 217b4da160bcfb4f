"""``plugbay serve``: serve device plugins to a kubelet."""

from __future__ import annotations

import argparse

from plugbay.cli.parsing import Subparsers, add_kubelet_root, add_log_options
from plugbay.cli.targets import DESCRIPTION, add_directory_options, add_targets, load_targets

_ROUTES = ("kubelet", "watcher", "both")
"""As `plugbay.sdk.routes.Route`, which the command's help can do without."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "serve",
        help="serve device plugins to a kubelet, or to `plugbay node up`",
        description=f"Serve device plugins until SIGTERM or Ctrl-C. {DESCRIPTION} SIGHUP looks for devices and "
        "registers again.",
        examples=(
            "plugbay serve gophers.py",
            "plugbay serve my_package.plugins:gophers",
            "plugbay serve directory --resource example.com/gopher --path /etc/gophers --env Gopher",
        ),
    )
    add_targets(parser, help="what to serve")
    add_kubelet_root(parser)
    add_log_options(parser)
    parser.add_argument(
        "--route",
        choices=_ROUTES,
        default="kubelet",
        help="register at kubelet.sock, or be found in plugins_registry by the kubelet's plugin watcher, or both "
        "(default: %(default)s, which every kubelet takes)",
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
    add_directory_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop, or until an end that was asked for; returns 0 then."""
    import asyncio
    import sys

    from plugbay.cli.logs import configure_logs
    from plugbay.cli.roots import chosen_kubelet_root
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.endings import Endings, IfNone, OnRefusal
    from plugbay.sdk.routes import Route
    from plugbay.sdk.runner import serve

    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    plugins = load_targets(args)
    endings = Endings(
        OnRefusal.EXIT if args.exit_on_refusal else OnRefusal.ASK_AGAIN,
        IfNone.EXIT if args.exit_if_none else IfNone.WAIT,
    )
    paths = KubeletPaths(chosen_kubelet_root(args))
    asyncio.run(serve(plugins, paths=paths, endings=endings, route=Route(args.route)))
    return 0
