"""``plugbay version``: which plugbay this is."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import Subparsers
from plugbay.cli.parsing import add_page_output


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "version",
        help="show the version",
        description="Show the version of this command. No node is asked: `plugbay node get` shows a node's version.",
        examples=("plugbay version -o json",),
    )
    add_page_output(parser)


def run(args: argparse.Namespace) -> int:
    from plugbay.cli.output import Form, object_text, show

    if not args.output:
        show(f"{version_line()}\n")
        return 0
    import platform

    about: dict[str, object] = {
        "version": plugbay_version(),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    show(object_text(about, Form(args.output)))
    return 0


def version_line() -> str:
    return f"plugbay {plugbay_version()}"


def plugbay_version() -> str:
    # Imported here: the packages' metadata are slow to find.
    from importlib.metadata import version

    return version("plugbay")
