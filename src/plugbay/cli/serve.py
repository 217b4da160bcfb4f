"""``plugbay serve``: serve device plugins to a kubelet."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from plugbay.cli import dry_run
from plugbay.cli.command_parser import Subparsers
from plugbay.cli.parsing import add_kubelet_root, add_log_options, add_metrics_address, duration_s, path_of
from plugbay.cli.ready_made import add_ready_made_options
from plugbay.cli.targets import DESCRIPTION, add_targets, load_targets

if TYPE_CHECKING:
    from plugbay.ops.listening import Address
    from plugbay.sdk.roster import Roster

_ROUTES = ("kubelet", "watcher", "both")
"""As `plugbay.sdk.routes.Route`, which the command's help can do without."""
_RELEASES = ("auto", "kubelet", "synthesised", "off")
"""As `plugbay.sdk.release.settings.ReleaseSource`."""

_SHORTEST_S = 0.1
"""A look has a kubelet list its pods and write its checkpoint."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "serve",
        takes_more="targets",
        help="serve device plugins to a kubelet, or to `plugbay node up`",
        description=f"Serve device plugins until SIGTERM or Ctrl-C. {DESCRIPTION} SIGHUP looks for devices and "
        "registers again. A config file is read again whenever it changes; what is wrong with it is logged, and all "
        "goes on as it was.",
        examples=(
            "plugbay serve gophers.py",
            "plugbay serve my_package.plugins:gophers",
            "plugbay serve --config plugins.yaml",
            "plugbay serve directory --resource example.com/gopher --path /etc/gophers --env Gopher",
            "plugbay serve scratch --resource example.com/scratch --directory /srv/scratch --size 10Gi --count 4",
        ),
    )
    add_targets(parser, help="what to serve")
    add_kubelet_root(parser)
    add_log_options(parser)
    add_metrics_address(parser)
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
    parser.add_argument(
        "--dry-run", action="store_true", help="serve nothing; show which resources would be served, and check them"
    )
    parser.add_argument(
        "--against",
        metavar="OLD",
        type=path_of,
        help="with --dry-run: show what differs from another config file; exit code 0 means nothing, 1 something, "
        "2 that a file is wrong",
    )
    parser.add_argument(
        "--cdi-directory",
        metavar="DIR",
        type=path_of,
        help="where CDI specs of plugins that have a CDI kind go (default: /var/run/cdi, where engines look)",
    )
    parser.add_argument(
        "--release",
        choices=_RELEASES,
        default="auto",
        help="how a plugin learns that a container is done with its devices. kubelet: by the call Deallocate, which "
        "stock kubelets never make; synthesised: from the kubelet's checkpoint; auto: from the checkpoint, unless the "
        "kubelet promises or makes calls; off: not at all (default: %(default)s)",
    )
    parser.add_argument(
        "--release-interval",
        metavar="TIME",
        type=_interval_s,
        default=30.0,
        help="how often to look at the checkpoint while devices are in use (default: 30s, at least 100ms)",
    )
    parser.add_argument(
        "--state-directory",
        metavar="DIR",
        type=path_of,
        help="where to keep which devices are in use (default: .plugbay in the kubelet's directory for plugins)",
    )
    add_ready_made_options(parser)


def _interval_s(text: str) -> float:
    if (interval_s := duration_s(text)) < _SHORTEST_S:
        raise argparse.ArgumentTypeError(f"wants a time of 100ms or more, found {text!r}")
    return interval_s


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop, or until an end that was asked for; returns 0 then."""
    import asyncio
    import logging
    import sys
    from functools import partial

    from plugbay.cli.logs import configure_logs
    from plugbay.cli.roots import chosen_kubelet_root
    from plugbay.errors import UsageError
    from plugbay.kernel.heaps import share_one_heap
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.ops.listening import parse_address
    from plugbay.sdk.cdi.directory import CDI_DIRECTORY
    from plugbay.sdk.endings import Endings, IfNone, OnRefusal
    from plugbay.sdk.release.settings import ReleaseSettings, ReleaseSource
    from plugbay.sdk.routes import Route
    from plugbay.sdk.runner import serve

    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    if args.dry_run:
        return dry_run.run(args)
    if args.against is not None:
        raise UsageError("--against goes with --dry-run")
    root = chosen_kubelet_root(args)
    address = None if args.metrics is None else parse_address(args.metrics)
    members = [member for _, of_target in load_targets(args) for member in of_target]
    endings = Endings(
        OnRefusal.EXIT if args.exit_on_refusal else OnRefusal.ASK_AGAIN,
        IfNone.EXIT if args.exit_if_none else IfNone.WAIT,
    )
    cdi_directory = CDI_DIRECTORY if args.cdi_directory is None else args.cdi_directory.absolute()
    release = ReleaseSettings(
        source=ReleaseSource(args.release),
        interval_s=args.release_interval,
        directory=None if args.state_directory is None else args.state_directory.absolute(),
    )

    def say(_: Roster) -> None:  # once nothing can be wrong with what is to be served
        logging.getLogger(__name__).info("serving the kubelet at %s: %s", root.path, root.why)

    serving = partial(
        serve,
        members,
        paths=KubeletPaths(root.path),
        endings=endings,
        route=Route(args.route),
        cdi_directory=cdi_directory,
        release=release,
    )
    share_one_heap()  # before there are threads
    asyncio.run(serving(onlooker=say) if address is None else _serve_with_pages(address, serving, say))
    return 0


async def _serve_with_pages(
    address: Address, serving: Callable[..., Coroutine[Any, Any, None]], say: Callable[[Roster], None]
) -> None:
    from plugbay.cli.serve_pages import pages_at  # imported here: who wants no pages does not pay for them

    async with pages_at(address) as look_at:  # around all: at its end they still tell what is going on

        def onlooker(roster: Roster) -> None:
            say(roster)
            look_at(roster)

        await serving(onlooker=onlooker)
