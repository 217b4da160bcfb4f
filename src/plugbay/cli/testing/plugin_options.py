"""Options of commands that start a plugin from a command line, and the signals that end them."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from plugbay.errors import UsageError
from plugbay.testing.conformance.subject.command import PluginCommand

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def add_plugin_options(parser: argparse.ArgumentParser) -> None:
    """``--env`` and ``--private-root``, for `plugin_command`."""
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable for the plugin; may hold {root}"
    )
    parser.add_argument(
        "--private-root",
        action="store_true",
        help="let the plugin find the kubelet at /var/lib/kubelet too, although its command line has {root}",
    )


def plugin_command(args: argparse.Namespace) -> PluginCommand:
    """The program after ``--``.

    Raises:
        UsageError: the program has no name, or a variable is not NAME=VALUE.
    """
    if args.command and not args.command[0]:
        raise UsageError("the program after -- has an empty name; say which one to run")
    environment = dict(_variable(each) for each in args.env)
    return PluginCommand(tuple(args.command), environment, always_enclosed=args.private_root)


@contextmanager
def told_to_end() -> Iterator[asyncio.Event]:
    """An event that SIGTERM or Ctrl-C sets during the block. A second one ends the command at once, as by default."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def forget() -> None:
        for number in _ENDING:
            loop.remove_signal_handler(number)

    def tell() -> None:
        told.set()
        forget()

    for number in _ENDING:
        loop.add_signal_handler(number, tell)
    try:
        yield told
    finally:
        forget()


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env: {text!r} is not NAME=VALUE")
    return name, value
