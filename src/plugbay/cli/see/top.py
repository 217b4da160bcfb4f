"""``plugbay top``: devices and what holds them, live in a terminal."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Final

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.see.options import add_place_options, chosen_places, chosen_reading
from plugbay.errors import UsageError
from plugbay.observe.following import followed
from plugbay.observe.reading.podresources import AllowedCalls

_REFRESH_S: Final = 5.0
"""Ages go on, and pages of plugins tell of no change."""


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Watch the devices of this node and the containers that hold them, with any kubelet and anybody's plugins, as "
        "`plugbay who` shows them: sorted by any column (s, r, or a click), searched (/), or only the unhealthy (u). "
        "It needs the package textual: pip install plugbay[top].",
        examples=("plugbay top", "plugbay top --root /var/lib/kubelet"),
        run=top,
    )
    add_place_options(parser, by_default="harmless")


def top(args: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("plugbay top needs a terminal; for a script there is: plugbay who --watch")
    try:
        from plugbay.cli.see.top_screen import TopScreen  # imported here: it costs a tenth of a second, and an extra
    except ModuleNotFoundError as error:
        if error.name not in ("textual", "rich"):
            raise
        raise UsageError("plugbay top needs the package textual; install it with: pip install textual") from error
    places = chosen_places(args)
    read = chosen_reading(args, places, AllowedCalls.HARMLESS)
    screen = TopScreen(lambda: followed(read, places, refresh_s=_REFRESH_S), lambda: datetime.now(UTC))
    screen.run()
    return screen.return_code or 0
