"""``plugbay chaos``: disturb a plugin at random, and reduce what breaks it to a short reproduction."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import at_least, duration_s, file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_note
from plugbay.cli.testing.plugin_options import add_plugin_options, plugin_command, told_to_end
from plugbay.cli.testing.trace_output import opened
from plugbay.cli.testing.written_files import check_writable, write_text
from plugbay.errors import PathUnusable, UsageError
from plugbay.errors.wording import printable
from plugbay.ops.tasks import first, ungrouped
from plugbay.testing.chaos.planning import ALWAYS, LENGTH, kinds_of, make_plan
from plugbay.testing.chaos.shaking import RECOVER_S, ChaosOutcome, ChaosSettings, shake, shrink_outcome
from plugbay.testing.chaos.steps import ChaosStep, StepKind, parse_steps, steps_text
from plugbay.traffic.file import RecordingFile
from plugbay.traffic.file_format import header_of
from plugbay.traffic.masking import masked

_RUNS: Final = 3
_SHRINK_S: Final = 180.0
_MOST_SEED: Final = 10**6
_FAULTS: Final = ", ".join(kind.value for kind in StepKind if kind not in ALWAYS)


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Run a device plugin, in any language, with a kubelet of our own, and disturb both at random: the kubelet "
        "restarts in three manners, its directory is made anew, sockets are deleted, streams break, the kubelet is "
        "slow, hangs or refuses, pods come in parallel, and the plugin is frozen, killed and started again. When the "
        "faults are over, the plugin has to be registered with the same devices, to allocate, and to hold no more "
        "open files than before. A sequence that breaks it is shortened and printed, to be played again with --steps. "
        "The exit code is 0 if all runs went well, and 1 if one did not.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] -- PROGRAM [ARGUMENT ...]",
        examples=(
            "plugbay chaos -- ./my-plugin --verbose",
            "plugbay chaos --for 10m --faults restart,crash,freeze -- ./my-plugin --plugin-dir={plugins}",
            "plugbay chaos --seed 4711 -o steps.txt -- ./my-plugin",
            "plugbay chaos --steps steps.txt --trace trace.jsonl -- ./my-plugin",
        ),
        run=run,
    )
    plans = parser.add_argument_group("what is done")
    plans.add_argument(
        "--seed", metavar="N", type=at_least(0), help="the seed of the first run; each other run has the next (random)"
    )
    plans.add_argument(
        "--runs", metavar="N", type=at_least(1), help=f"so many runs, with a new plugin each (default: {_RUNS})"
    )
    plans.add_argument(
        "--for", dest="for_s", metavar="TIME", type=duration_s, help="begin runs for so long, such as 90s or 10m"
    )
    plans.add_argument(
        "--length", metavar="N", type=at_least(1), default=LENGTH, help="the steps of a run (default: %(default)s)"
    )
    plans.add_argument(
        "--faults", metavar="KINDS", type=_words, default=(), help=f"these faults only, joined by commas: {_FAULTS}"
    )
    plans.add_argument("--steps", metavar="FILE", type=file_of, help="do the steps of FILE instead, one a line")
    plans.add_argument(
        "--recover",
        metavar="TIME",
        type=duration_s,
        default=f"{RECOVER_S:g}s",
        help="the time that the plugin has after the faults until all is well again (default: %(default)s)",
    )
    found = parser.add_argument_group("what is found")
    found.add_argument(
        "--shrink",
        metavar="TIME",
        type=duration_s,
        default=f"{_SHRINK_S:g}s",
        help="look so long for a shorter sequence that fails as well; 0 does not (default: %(default)s)",
    )
    found.add_argument("-o", "--output", metavar="FILE", type=path_of, help="write the steps that fail to a new FILE")
    found.add_argument(
        "--trace",
        metavar="FILE",
        type=path_of,
        help="write the traffic of the run that fails to a new FILE, for `plugbay trace --show`",
    )
    add_plugin_options(parser)


def run(args: argparse.Namespace) -> int:
    """Disturb, and say what came of it."""
    if not args.command:
        raise UsageError("say what to disturb after --, such as: plugbay chaos -- ./my-plugin")
    if args.steps is not None:
        for option, value in (("--seed", args.seed), ("--for", args.for_s), ("--faults", args.faults)):
            if value:
                raise UsageError(f"{option} is for random steps, and --steps gives the steps")
    for path in (args.output, args.trace):
        if path is not None:
            if path.exists():
                raise PathUnusable(str(path), "this file is here already; give another one")
            check_writable(path)
    plans = _plans(args)
    configure_logs("error", sys.stderr, form="text")
    return asyncio.run(_shake(args, plans))


async def _shake(args: argparse.Namespace, plans: Iterator[tuple[str, tuple[ChaosStep, ...]]]) -> int:
    codes: list[int] = []

    async def shaking() -> None:
        codes.append(await _runs(args, plans))

    with told_to_end() as told, ungrouped():
        await first(shaking(), told.wait())
    return codes[0] if codes else 130


async def _runs(args: argparse.Namespace, plans: Iterator[tuple[str, tuple[ChaosStep, ...]]]) -> int:
    settings = ChaosSettings(plugin_command(args), os.environ, recover_s=args.recover)
    count = 0
    for title, steps in plans:
        outcome = await shake(settings, steps)
        count += 1
        _tell_run(title, outcome)
        if outcome.has_failed:
            await _tell_failure(args, settings, title, outcome)
            return 1
    show(f"{count} {'run' if count == 1 else 'runs'}, all well\n")
    return 0


def _plans(args: argparse.Namespace) -> Iterator[tuple[str, tuple[ChaosStep, ...]]]:
    """The title and the steps of each run."""
    runs = args.runs or (None if args.for_s is not None else 1 if args.steps is not None else _RUNS)
    if args.steps is not None:
        with opened(args.steps) as file:
            steps = parse_steps(file.read(), args.steps)
        return _limited((("steps", steps) for _ in iter(int, 1)), runs, args.for_s)
    first_seed = random.randrange(_MOST_SEED) if args.seed is None else args.seed
    kinds = kinds_of(args.faults)
    numbers = iter(range(first_seed, sys.maxsize))
    plans = ((f"seed {seed}", make_plan(seed, length=args.length, kinds=kinds)) for seed in numbers)
    return _limited(plans, runs, args.for_s)


def _limited(
    plans: Iterator[tuple[str, tuple[ChaosStep, ...]]], runs: int | None, for_s: float | None
) -> Iterator[tuple[str, tuple[ChaosStep, ...]]]:
    until = None if for_s is None else time.monotonic() + for_s
    for number, plan in enumerate(plans):
        if (runs is not None and number >= runs) or (until is not None and number and time.monotonic() >= until):
            return
        yield plan


def _tell_run(title: str, outcome: ChaosOutcome) -> None:
    ended = f"; the plugin {' and '.join(dict.fromkeys(outcome.endings))} by itself" if outcome.endings else ""
    verdict = "NOT WELL" if outcome.has_failed else f"all well {outcome.recovered_s:.1f} s after the last"
    show(f"{title}: {_count(outcome.steps)} in {outcome.took_s:.1f} s, {verdict}{ended}\n")


async def _tell_failure(args: argparse.Namespace, settings: ChaosSettings, title: str, outcome: ChaosOutcome) -> None:
    """Shrink what failed, and say how to play it again."""

    def tell(failing: int, trying: int) -> None:
        if sys.stderr.isatty():
            show_note(f"{failing} steps fail; trying {trying}")

    show("".join(f"  {printable(line)}\n" for problem in outcome.problems for line in problem.splitlines()))
    shortest = await shrink_outcome(settings, outcome, within_s=args.shrink, tell=tell)
    shrunk = "" if shortest is outcome else f", shrunk from {_count(outcome.steps)}"
    text = steps_text(shortest.steps, title=f"plugbay chaos: {title}{shrunk}")
    show(f"{_count(shortest.steps)} {'fails' if len(shortest.steps) == 1 else 'fail'} too{shrunk}:\n" if shrunk else "")
    show("".join(f"  {line}\n" for line in text.splitlines()))
    if not shortest.steps:
        show("it fails without any fault\n")
    if args.output is not None:
        write_text(args.output, text)
        show_note(f"the steps are in {args.output}; play them again with --steps {args.output}")
    if args.trace is not None:
        _write_trace(args.trace, shortest)
        show_note(f"the traffic is in {args.trace}; see it with: plugbay trace --show {args.trace}")


def _write_trace(path: Path, outcome: ChaosOutcome) -> None:
    with RecordingFile(path, header_of(datetime.now(UTC), is_masked=True)) as file:
        for record in outcome.records:
            file.take(masked(record))


def _count(steps: tuple[ChaosStep, ...]) -> str:
    return f"{len(steps)} {'step' if len(steps) == 1 else 'steps'}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
