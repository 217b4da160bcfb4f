"""How a ``plugbay cni`` command runs plugins, and how it prints what they answer."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Coroutine
from typing import Final

from plugbay.cli.printing.output import show
from plugbay.errors import NetworkPluginFailed

FAILED: Final = 1
_INDENT: Final = 4
"""Plugins indent so."""


def run(args: argparse.Namespace, work: Coroutine[None, None, int]) -> int:
    """Run ``work`` to its end; with ``-o json`` a plugin's error goes to the output, in the form that plugins use."""
    # Plugins' own log lines are for the caller of this command.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return asyncio.run(work)
    except NetworkPluginFailed as error:
        if args.output:
            details = {"details": error.details} if error.details else {}
            show_json({"code": error.code, "msg": error.message, **details})
        raise


def show_json(value: object) -> None:
    """Print ``value`` as plugins print JSON."""
    show(json.dumps(value, indent=_INDENT, ensure_ascii=False) + "\n")
