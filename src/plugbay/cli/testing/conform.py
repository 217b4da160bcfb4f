"""``plugbay conform``: judge a device plugin, in any language, by numbered rules."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Final

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.output import show_page
from plugbay.cli.testing.verdict_table import as_table
from plugbay.errors import UsageError
from plugbay.testing.conformance.catalogue import chosen_rules
from plugbay.testing.conformance.findings import Verdict
from plugbay.testing.conformance.judging import Progress, judge_plugin
from plugbay.testing.conformance.rule import RuleSeverity
from plugbay.testing.conformance.settings import JOBS, READY_S, RETRY_S, ConformanceSettings
from plugbay.testing.conformance.subject.command import PluginCommand

_SEVERITIES: Final = tuple(each.value for each in RuleSeverity)


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Judge a device plugin by numbered rules: it is started, a kubelet is played to it, and what it does is "
        "compared with what kubelets need. The kubelet's root is a directory of its own; the plugin finds it at "
        "/var/lib/kubelet, in a mount namespace that only it sees, or is told where it is by {root}, {plugins} or "
        "{socket} in its command line. The exit code is 1 if a rule as grave as --fail-on is broken.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] -- PROGRAM [ARGUMENT ...]",
        examples=(
            "plugbay conform -- ./my-plugin --verbose",
            "plugbay conform --only PB1xx,PB301 -- ./my-plugin --kubelet-dir={plugins}",
        ),
        run=run,
    )
    parser.add_argument(
        "--only", metavar="RULES", type=_names, default=(), help="judge by these rules only: PB101,PB3xx"
    )
    parser.add_argument("--skip", metavar="RULES", type=_names, default=(), help="leave these rules out")
    parser.add_argument(
        "--fail-on", choices=_SEVERITIES, default="must", help="the least severity that makes the exit code 1 (must)"
    )
    parser.add_argument(
        "--ready-timeout",
        metavar="SECONDS",
        type=float,
        default=READY_S,
        help="the time that the plugin has to register and to list a device (20)",
    )
    parser.add_argument(
        "--retry-timeout",
        metavar="SECONDS",
        type=float,
        default=RETRY_S,
        help="the time that the plugin has to register again, when the kubelet was away or refused it (35)",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=JOBS, help="the number of plugins that run at a time (4)"
    )
    parser.add_argument(
        "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable for the plugin; may hold {root}"
    )
    parser.add_argument(
        "--private-root",
        action="store_true",
        help="let the plugin find the kubelet at /var/lib/kubelet too, although its command line has {root}",
    )


def run(args: argparse.Namespace) -> int:
    """Judge, and show the verdict."""
    if not args.command:
        raise UsageError("say what to judge after --, such as: plugbay conform -- ./my-plugin")
    rules = chosen_rules(args.only, args.skip)
    report = asyncio.run(judge_plugin(_settings(args), rules, _ShownProgress()))
    show_page(as_table(report))
    return 1 if report.fails_at(RuleSeverity(args.fail_on)) else 0


def _settings(args: argparse.Namespace) -> ConformanceSettings:
    environment = dict(_variable(each) for each in args.env)
    return ConformanceSettings(
        PluginCommand(tuple(args.command), environment, always_enclosed=args.private_root),
        ready_timeout_s=args.ready_timeout,
        retry_timeout_s=args.retry_timeout,
        jobs=args.jobs,
        environ=os.environ,
    )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env: {text!r} is not NAME=VALUE")
    return name, value


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.replace(",", " ").split())


class _ShownProgress(Progress):
    """Shows on a terminal what is played, in one line that is written over."""

    def __init__(self) -> None:
        self._done = ""
        self._is_shown = sys.stderr.isatty()

    def playing(self, scene: str, resource: str) -> None:
        self._show(f"{self._done}{scene}")

    def judged(self, verdict: Verdict, done: int, of: int) -> None:
        self._done = f"{done} of {of} judged, "
        self._show(f"{done} of {of} judged")

    def _show(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
