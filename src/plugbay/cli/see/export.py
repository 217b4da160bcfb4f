"""``plugbay export``: a node's devices and their holders as metrics."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from typing import Final

from plugbay.cli.arguments.options import add_log_options, at_least
from plugbay.cli.arguments.page_options import add_page_options, chosen_page
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.outcome import end_early_on_sigterm
from plugbay.cli.see.options import add_place_options, chosen_places, chosen_reading
from plugbay.kernel.heaps import share_one_heap
from plugbay.observe.exporting.bounds import MAX_SERIES
from plugbay.observe.exporting.exporter import NodeExporter
from plugbay.observe.following import followed
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.view import ObservedNode
from plugbay.ops.clock import SystemClock
from plugbay.ops.garbage import collecting_later
from plugbay.ops.listening import parse_address
from plugbay.ops.pages import serve_pages

logger = logging.getLogger(__name__)

_ADDRESS: Final = "127.0.0.1:9410"
_PAGE_AGE_S: Final = 0.25
"""A kubelet that is back is seen within a second, page and reading together."""
_REFRESH_S: Final = 15.0
"""Pages of plugins tell of no change; a scrape comes every 15 to 60 seconds."""


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Serve metrics of all devices of this node, with any kubelet and anybody's plugins, and of the containers that "
        "hold them, for Prometheus: /metrics, /healthz, /readyz, /status; with --ui a page for browsers, too. They "
        "follow the node as the kernel tells of changes; while the kubelet restarts or hangs, the last known view is "
        "shown, marked as stale with its age. "
        "Alert rules and a dashboard for it are in deploy/monitoring.",
        examples=("plugbay export", "plugbay export --listen :9410 --root /var/lib/kubelet", "plugbay export --ui"),
        run=export,
    )
    parser.add_argument(
        "--listen",
        metavar="ADDR",
        default=_ADDRESS,
        help="where to answer: :9410, 127.0.0.1:9410 or unix:/PATH; there is no login, and names of pods are shown "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--max-series",
        type=at_least(1),
        default=MAX_SERIES,
        metavar="N",
        help="the most series of one metric; plugbay_node_series_dropped counts those left out (default: %(default)s)",
    )
    add_page_options(parser)
    add_place_options(parser, by_default="harmless")
    add_log_options(parser)


def export(args: argparse.Namespace) -> int:
    end_early_on_sigterm()
    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    address = parse_address(args.listen)
    page = chosen_page(args)
    places = chosen_places(args)
    read = chosen_reading(args, places, AllowedCalls.HARMLESS)

    async def serve() -> None:
        exporter = NodeExporter(SystemClock(), max_series=args.max_series)
        showing = [exporter.show]
        async with AsyncExitStack() as stack:
            pages = serve_pages(exporter.pages(), address, max_age_s=_PAGE_AGE_S)
            bound = await stack.enter_async_context(pages)
            logger.info("metrics of the node at %s are answered at %s", places.kubelet.root, bound)
            if page is not None:
                from plugbay.observe.page.live import LiveNode  # few exporters have a page
                from plugbay.observe.page.serving import PageSettings, serve_page

                live = LiveNode()
                showing.insert(0, live.show)  # people wait for an event, and a scrape comes when it comes
                settings = PageSettings(address=page, names=tuple(args.ui_name))
                url = await stack.enter_async_context(serve_page(live, places, settings, SystemClock()))
                logger.info("the node's page for browsers is at %s", url)

            async def shown() -> ObservedNode:
                with collecting_later():
                    view = await read()
                    for show in showing:
                        await show(view)
                return view

            async def follow() -> None:
                async for _ in followed(shown, places, refresh_s=_REFRESH_S):
                    pass

            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            following = tasks.create_task(follow())
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, following.cancel)

    share_one_heap()  # before there are threads, which read and render
    asyncio.run(serve())
    return 0
