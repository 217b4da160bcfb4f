"""``plugbay conform``: judge a device plugin, in any language, by numbered rules."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.output import show, show_note, show_page
from plugbay.cli.testing.plugin_options import add_plugin_options, plugin_command, told_to_end
from plugbay.cli.testing.verdict_progress import ShownProgress
from plugbay.cli.testing.verdict_table import as_table, rule_table, summary
from plugbay.cli.testing.written_files import check_writable, write_text
from plugbay.errors import PathUnusable, UsageError
from plugbay.ops.tasks import first
from plugbay.testing.conformance.baseline import baseline_of, read_baseline, with_baseline
from plugbay.testing.conformance.catalogue import chosen_rules, page_of, rule_named
from plugbay.testing.conformance.findings import ConformanceReport
from plugbay.testing.conformance.judging import judge_plugin
from plugbay.testing.conformance.reports.as_html import as_html
from plugbay.testing.conformance.reports.as_json import as_json
from plugbay.testing.conformance.reports.as_junit import as_junit
from plugbay.testing.conformance.rule import AnyRule, RuleSeverity
from plugbay.testing.conformance.settings import JOBS, READY_S, RETRY_S, ConformanceSettings
from plugbay.testing.conformance.subject.command import SubjectCommand
from plugbay.testing.conformance.subject.container import BindMount, container_command

_SEVERITIES: Final = tuple(each.value for each in RuleSeverity)
_STDOUT: Final = Path("-")
_INTERRUPTED: Final = 130


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Judge a device plugin by numbered rules: it is started, a kubelet is played to it, and what it does is "
        "compared with what kubelets need. The kubelet's root is a directory of its own; the plugin finds it at "
        "/var/lib/kubelet, in a mount namespace that only it sees, or is told where it is by {root}, {plugins} or "
        "{socket} in its command line. The exit code is 1 if a rule as grave as --fail-on is broken, or could not be "
        "judged.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] -- PROGRAM [ARGUMENT ...]",
        examples=(
            "plugbay conform -- ./my-plugin --verbose",
            "plugbay conform --only PB1xx,PB301 -- ./my-plugin --kubelet-dir={plugins}",
            "plugbay conform --provoke ./change-a-device.sh --html report.html -- ./my-plugin",
            "plugbay conform --image my-plugin.tar -- --verbose",
            "plugbay conform --explain PB105",
        ),
        run=run,
    )
    parser.add_argument(
        "--list", action="store_true", help="show the rules, those of --only and --skip, and judge nothing"
    )
    parser.add_argument("--explain", metavar="RULE", help="show the page of a rule, and judge nothing")
    _add_choice(parser)
    _add_running(parser)
    _add_reports(parser)


def _add_choice(parser: CommandParser) -> None:
    parser.add_argument(
        "--only", metavar="RULES", type=_names, default=(), help="judge by these rules only: PB101,PB3xx"
    )
    parser.add_argument("--skip", metavar="RULES", type=_names, default=(), help="leave these rules out")
    parser.add_argument(
        "--fail-on", choices=_SEVERITIES, default="must", help="the least severity that makes the exit code 1 (must)"
    )
    parser.add_argument(
        "--baseline", metavar="FILE", type=path_of, help="findings that are known, and do not make the exit code 1"
    )
    parser.add_argument(
        "--write-baseline",
        metavar="FILE",
        type=path_of,
        help="write the findings of this run, to be known in later ones",
    )


def _add_running(parser: CommandParser) -> None:
    parser.add_argument(
        "--provoke",
        metavar="COMMAND",
        default="",
        help="a shell command that changes a device: it finds disappear, appear, fail or recover in PLUGBAY_CHANGE, "
        "and which device in PLUGBAY_DEVICE; it ends with 3 if it cannot",
    )
    parser.add_argument(
        "--resource",
        metavar="NAME",
        action="append",
        default=[],
        help="wait for this resource; for a plugin that registers several, one by one",
    )
    parser.add_argument(
        "--ready-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=READY_S,
        help="the time that the plugin has to register and to list a device (20)",
    )
    parser.add_argument(
        "--retry-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=RETRY_S,
        help="the time that the plugin has to register again, when the kubelet was away or refused it, and to list a "
        "device that was changed (35)",
    )
    parser.add_argument(
        "--jobs", metavar="N", type=_count, default=JOBS, help="the number of plugins that run at a time (4)"
    )
    add_plugin_options(parser)
    parser.add_argument(
        "--image",
        metavar="FILE",
        type=path_of,
        help="run the plugin in a container of this image, an archive (docker save) or an OCI layout; what follows -- "
        "are its arguments. It takes root, and crun or runc",
    )
    parser.add_argument(
        "--mount",
        metavar="HOST[:CONTAINER[:ro]]",
        action="append",
        default=[],
        help="a directory or file of the host that the container has",
    )
    parser.add_argument(
        "--cdi-dir",
        metavar="DIR",
        type=path_of,
        action="append",
        default=[],
        help="a directory with CDI specs, besides /etc/cdi and /var/run/cdi",
    )


def _add_reports(parser: CommandParser) -> None:
    for kind, what in (
        ("json", "the report as JSON"),
        ("junit", "the report as JUnit's XML"),
        ("html", "the report as a page, with a trace of each rule that was broken"),
    ):
        parser.add_argument(f"--{kind}", metavar="FILE", type=path_of, help=f"write {what}; - prints it")


def run(args: argparse.Namespace) -> int:
    """Judge, and show the verdict; or show rules."""
    if args.list:
        show_page(rule_table(chosen_rules(args.only, args.skip)))
        return 0
    if args.explain is not None:
        show(page_of(rule_named(args.explain)))
        return 0
    if not args.command and args.image is None:
        raise UsageError("say what to judge after --, such as: plugbay conform -- ./my-plugin")
    rules = chosen_rules(args.only, args.skip)
    _check_places(args)
    known = read_baseline(_read(args.baseline), str(args.baseline)) if args.baseline else ()
    with ExitStack() as stack:
        settings = _settings(args, stack.enter_context(_subject(args)))
        judged = asyncio.run(_until_told(settings, rules))
    if judged is None:
        return _INTERRUPTED
    report = with_baseline(judged, known)
    threshold = RuleSeverity(args.fail_on)
    if _STDOUT in _wanted(args):
        show_note(summary(report))
    else:
        show_page(as_table(report))
    _write(args, report, threshold)
    return 1 if report.fails_at(threshold) else 0


async def _until_told(settings: ConformanceSettings, rules: Sequence[AnyRule]) -> ConformanceReport | None:
    """The report; None if SIGTERM or Ctrl-C came before, after which nothing of the run is left."""
    reports: list[ConformanceReport] = []
    progress = ShownProgress()

    async def judge() -> None:
        reports.append(await judge_plugin(settings, rules, progress))

    with told_to_end() as told:
        await first(judge(), _wait(told))
    progress.end()
    return reports[0] if reports else None


async def _wait(told: asyncio.Event) -> None:
    await told.wait()


@contextmanager
def _subject(args: argparse.Namespace) -> Iterator[SubjectCommand]:
    command = plugin_command(args)
    if args.image is None:
        if args.mount:
            raise UsageError("--mount is for a plugin in a container: it goes with --image")
        yield command
        return
    mounts = tuple(BindMount.parse(each) for each in args.mount)
    with container_command(args.image, command.words, command.environment, mounts, environ=os.environ) as container:
        yield container


def _settings(args: argparse.Namespace, command: SubjectCommand) -> ConformanceSettings:
    return ConformanceSettings(
        command,
        ready_timeout_s=args.ready_timeout,
        retry_timeout_s=args.retry_timeout,
        jobs=args.jobs,
        provoke=args.provoke,
        resources=tuple(args.resource),
        cdi_directories=tuple(args.cdi_dir),
        environ=os.environ,
    )


def _wanted(args: argparse.Namespace) -> tuple[Path | None, ...]:
    """The places of the reports; None for one that is not asked for."""
    return args.json, args.junit, args.html, args.write_baseline


def _check_places(args: argparse.Namespace) -> None:
    """Refuse places where a report could not be written, or would be written over by another one."""
    taken: set[Path] = set()
    for path in filter(None, _wanted(args)):
        place = path if path == _STDOUT else path.resolve()
        if place in taken:
            raise UsageError(f"two reports would be written to {path}; give each a place of its own")
        taken.add(place)
        if path != _STDOUT:
            check_writable(path)


def _write(args: argparse.Namespace, report: ConformanceReport, threshold: RuleSeverity) -> None:
    """Write what was asked for; - is standard output, which has it in place of the table."""
    texts: tuple[Callable[[], str], ...] = (
        lambda: as_json(report),
        lambda: as_junit(report, threshold),
        lambda: as_html(report),
        lambda: baseline_of(report),
    )
    for path, text in zip(_wanted(args), texts, strict=True):
        if path == _STDOUT:
            show(text())
        elif path is not None:
            write_text(path, text())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PathUnusable(str(path), "is not a baseline: it is not UTF-8") from error


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.replace(",", " ").split())


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise argparse.ArgumentTypeError(f"wants seconds, found {text}")
    return seconds


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"wants a number from 1 to 64, found {text}")
    return int(text)
