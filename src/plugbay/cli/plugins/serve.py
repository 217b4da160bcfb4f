"""``plugbay serve``: serve device plugins to a kubelet."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import DESCRIPTION, add_targets, begin_targets, load_targets
from plugbay.cli.plugins import dry_run
from plugbay.cli.plugins.serve_options import add_serve_options
from plugbay.cli.printing.outcome import end_early_on_sigterm
from plugbay.ops.garbage import nothing_to_collect

if TYPE_CHECKING:
    from plugbay.ops.listening import Address
    from plugbay.sdk.process.roster import Roster


def declare(parser: CommandParser) -> None:
    parser.describe(
        f"Serve device plugins until SIGTERM or Ctrl-C. {DESCRIPTION} SIGHUP looks for devices and "
        "registers again. A config file is read again whenever it changes; a file with a mistake is logged and "
        "changes nothing.",
        takes_more="targets",
        examples=(
            "plugbay serve gophers.py",
            "plugbay serve --node --reload gophers.py",
            "plugbay serve my_package.plugins:gophers",
            "plugbay serve --config plugins.yaml",
            "plugbay serve directory --resource example.com/gopher --path /etc/gophers --env Gopher",
        ),
        run=serve,
    )
    add_targets(
        parser,
        help="what to serve",
        about="Serve devices to a kubelet, or to `plugbay node up`, until SIGTERM or Ctrl-C",
        add_options=add_serve_options,
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="for development: serve TARGET anew whenever its file, or a Python file beside it, has changed",
    )


def run(args: argparse.Namespace) -> int:
    return serve(args)


def serve(args: argparse.Namespace) -> int:
    """Serve until a signal, or until an end that an option asks for; returns 0."""
    begin_targets(args)
    with nothing_to_collect():
        import asyncio
        import logging
        import os
        import sys
        from functools import partial

        from plugbay.cli.arguments.roots import chosen_kubelet_root
        from plugbay.cli.printing.logs import configure_logs
        from plugbay.errors import UsageError
        from plugbay.kernel.heaps import share_one_heap
        from plugbay.kubelet.paths import KubeletPaths
        from plugbay.ops.service_manager import ServiceManager
        from plugbay.sdk.author.release_settings import ReleaseSettings, ReleaseSource
        from plugbay.sdk.cdi.directory import CDI_DIRECTORY
        from plugbay.sdk.process import runner
        from plugbay.sdk.process.endings import Endings, IfNone, OnRefusal
        from plugbay.sdk.serving.routes import RegistrationRoute

    end_early_on_sigterm()
    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    if args.dry_run:
        return dry_run.run(args)
    if args.against is not None:
        raise UsageError("--against goes with --dry-run")
    members = [member for _, of_target in load_targets(args) for member in of_target]
    # Only now: `nvidia` and `generic` have options of their own for these.
    address = None if args.metrics is None else _address_of(args.metrics)
    root = chosen_kubelet_root(args)
    endings = Endings(
        OnRefusal.EXIT if args.exit_on_refusal else OnRefusal.ASK_AGAIN,
        IfNone.EXIT if args.exit_if_none else IfNone.WAIT,
    )
    cdi_directory = CDI_DIRECTORY if args.cdi_directory is None else args.cdi_directory.absolute()
    release = ReleaseSettings(
        source=ReleaseSource(args.release),
        interval_s=args.release_interval,
        asks=args.release_ask,
        directory=None if args.state_directory is None else args.state_directory.absolute(),
    )

    def say(_: Roster) -> None:  # once the plugins are known to be servable
        logging.getLogger(__name__).info("serving the kubelet at %s: %s", root.path, root.why)

    serving = partial(
        runner.serve,
        members,
        paths=KubeletPaths(root.path),
        endings=endings,
        route=RegistrationRoute(args.route),
        cdi_directory=cdi_directory,
        release=release,
        manager=ServiceManager.of(os.environ),
    )
    share_one_heap()  # before there are threads
    asyncio.run(serving(onlooker=say) if address is None else _serve_with_pages(address, serving, say))
    return 0


def _address_of(text: str) -> Address:
    from plugbay.ops.listening import parse_address  # imported here, as are the pages: few plugins have any

    return parse_address(text)


async def _serve_with_pages(
    address: Address, serving: Callable[..., Coroutine[Any, Any, None]], say: Callable[[Roster], None]
) -> None:
    from plugbay.cli.plugins.serve_pages import pages_at  # imported here: a plugin without pages does not pay for them

    async with pages_at(address) as look_at:  # around all: the pages still answer while the plugins end

        def onlooker(roster: Roster) -> None:
            say(roster)
            look_at(roster)

        await serving(onlooker=onlooker)
