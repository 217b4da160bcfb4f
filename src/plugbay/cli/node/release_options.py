"""The options of ``plugbay node up`` about PostStopContainer and Deallocate."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from plugbay.cli.arguments.options import duration_s
from plugbay.cli.arguments.parser import CommandParser
from plugbay.errors import UsageError

if TYPE_CHECKING:
    from plugbay.manager.config import ReleaseLimits


def add_release_options(parser: CommandParser) -> None:
    about = "with the feature gate DeviceManagerDeallocate: "
    parser.add_argument(
        "--release-wait",
        metavar="TIME",
        type=duration_s,
        default="60s",
        help=f"{about}how long the end of a pod, or the next start of a container, waits for plugins to clean up; "
        "0 does not wait (default: %(default)s)",
    )
    parser.add_argument(
        "--release-give-up",
        metavar="TIME",
        type=duration_s,
        default="24h",
        help=f"{about}when to stop asking a plugin that does not confirm (default: %(default)s)",
    )
    parser.add_argument(
        "--release-attempts",
        metavar="N",
        type=int,
        default=1000,
        help=f"{about}after how many attempts to stop asking, if that is sooner (default: %(default)s)",
    )
    parser.add_argument(
        "--on-release-give-up",
        choices=("free", "quarantine"),
        default="free",
        help=f"{about}what becomes of the devices then: others get them, or no pod before their plugin registers again "
        "or reports them unhealthy and then healthy (default: %(default)s)",
    )
    parser.add_argument(
        "--on-unconfirmed-post-stop",
        choices=("start", "fail"),
        default="start",
        help=f"{about}whether a container starts again although its plugin has not cleaned up in time "
        "(default: %(default)s)",
    )


def release_limits(args: argparse.Namespace) -> ReleaseLimits:
    """The limits for calls that end a use, from the command line.

    Raises:
        UsageError: a time is below zero, or nothing would ever be tried.
    """
    # Imported here: the command's help needs no manager.
    from plugbay.manager.config import Exhaustion, ReleaseLimits, Unconfirmed

    if args.release_wait < 0:
        raise UsageError("--release-wait cannot be below zero")
    if args.release_give_up <= 0:
        raise UsageError("--release-give-up has to be above zero")
    if args.release_attempts < 1:
        raise UsageError("--release-attempts has to be above zero")
    return ReleaseLimits(
        wait_s=args.release_wait,
        max_attempts=args.release_attempts,
        max_age_s=args.release_give_up,
        on_exhaustion=Exhaustion(args.on_release_give_up),
        on_unconfirmed=Unconfirmed(args.on_unconfirmed_post_stop),
    )
