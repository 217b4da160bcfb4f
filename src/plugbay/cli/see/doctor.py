"""``plugbay doctor``: what is wrong with devices on this node, and what to do."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.names import pod_name
from plugbay.cli.arguments.options import add_namespace, duration_s, file_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.printing.output import show, show_error, show_note, show_page
from plugbay.cli.see.diagnosis_page import explanation, harmless, page, pod_lines
from plugbay.cli.see.options import add_host_options, chosen_host, root_on_host
from plugbay.errors import PodNotFound, UsageError
from plugbay.observe.doctor.catalogue import CHECKS, about_pod, check_named, examine
from plugbay.observe.doctor.document import diagnosis_document
from plugbay.observe.doctor.evidence.host import Host
from plugbay.observe.doctor.evidence.reading import read_evidence
from plugbay.observe.doctor.evidence.values import Examined, PodSight
from plugbay.observe.doctor.finding import Check, Diagnosis, FindingSeverity
from plugbay.observe.doctor.fixing import fixes_of, make
from plugbay.observe.places import HOST
from plugbay.ops.clock import SystemClock

WARNED: Final = 1
BROKEN: Final = 3


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Look for what is wrong with devices on this node, and say what to do, with any kubelet and any plugins. "
        "With pod/NAME, only what keeps that pod from running. Nothing is changed without --fix, and no question is "
        "asked that could harm a pod. The exit code is 0 if the node is well or there are notes only, 1 if there are "
        "warnings or a check could not see everything, 3 if there are errors.",
        examples=(
            "plugbay doctor",
            "plugbay doctor pod/gopher -n lab",
            "plugbay doctor --explain PBD104",
            "plugbay doctor --fix --dry-run",
            "plugbay doctor --host /host -o json",
        ),
        run=run,
    )
    parser.add_argument("pod", metavar="pod/NAME", nargs="?", type=pod_name, help="the pod that is stuck")
    add_namespace(parser)
    parser.add_argument(
        "--id", metavar="ID,...", type=_checks, default=(), help="only these checks: PBD101, or PBD1xx for a group"
    )
    parser.add_argument(
        "--explain", metavar="ID", type=_checks, help="show cause and remedy of a check, and look at nothing"
    )
    parser.add_argument("--list", action="store_true", help="show all checks, and look at nothing")
    parser.add_argument("--fix", action="store_true", help="mend what can be mended without harm to any pod")
    parser.add_argument("--dry-run", action="store_true", help="with --fix: show what it would do, and do nothing")
    parser.add_argument(
        "--objects",
        metavar="FILE",
        action="append",
        default=[],
        type=file_of,
        help="what `kubectl get pods,events,nodes -A -o json` has written: why pods were refused, what the node has",
    )
    parser.add_argument(
        "--ask-list",
        action="store_true",
        help="ask PodResources by List. WARNING: a stock kubelet then frees the devices of pods that have ended, and "
        "may give a device to two pods if an Allocate hangs; without it pods are asked for by name, which is harmless",
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="the same as JSON")
    parser.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration_s,
        default="2s",
        help="how long to wait for each answer of a plugin or the kubelet (default: %(default)s)",
    )
    add_host_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.explain is not None:
        show("\n".join(explanation(each) for each in args.explain))
        return 0
    if args.list:
        show("".join(f"{each.id}  {each.severity.value:7}  {each.title}\n" for each in CHECKS))
        return 0
    if args.dry_run and not args.fix:
        raise UsageError("--dry-run belongs to --fix: without it nothing is changed anyway")
    if args.fix and not args.dry_run and "-" in args.objects:
        raise UsageError("--fix looks at everything twice, and standard input can be read once: give --objects a file")
    if args.timeout <= 0:
        raise UsageError("--timeout: an answer takes some time; wants more than 0")
    host = replace(_host(args), answer_s=args.timeout)
    evidence, diagnosis = _look(args, host)
    if args.fix:
        fixes = fixes_of(diagnosis)
        if args.dry_run:
            show(
                "".join(f"would {harmless(str(each))}\n" for each in fixes) or "There is nothing to fix without harm.\n"
            )
            return 0
        for fix, problem in make(fixes, host):
            if problem:
                show_error(f"did not {harmless(str(fix))}: {problem}")
            else:
                done = f"did {harmless(str(fix))}"
                show_note(done) if args.output else show(f"{done}\n")  # JSON stands alone
        evidence, diagnosis = _look(args, host)
    return _tell(args, host, evidence, diagnosis)


def _look(args: argparse.Namespace, host: Host) -> tuple[Examined, Diagnosis]:
    files = [Path(each) if each != "-" else Path("/dev/stdin") for each in args.objects]
    evidence = asyncio.run(read_evidence(host, objects=files, may_list=args.ask_list))
    return evidence, examine(evidence, args.id or CHECKS)


def _tell(args: argparse.Namespace, host: Host, evidence: Examined, diagnosis: Diagnosis) -> int:
    lines: Sequence[str] = ()
    about = ""
    if args.pod is not None:
        pod = _pod(args, evidence)
        lines, about = tuple(pod_lines(pod, evidence)), f"Pod {pod.title}"
        diagnosis = about_pod(diagnosis, {pod.uid, pod.title}, _resources(pod, evidence))
    where = str(host.kubelet_root)
    if args.output == "json":
        show(json.dumps(diagnosis_document(diagnosis, evidence, where), indent=2) + "\n")
    else:
        width = shutil.get_terminal_size().columns
        show_page("".join(f"{each}\n" for each in lines) + page(diagnosis, where, width=width, about=about))
    return exit_code(diagnosis)


def exit_code(diagnosis: Diagnosis) -> int:
    """By the gravest finding; what could not be looked at is as grave as a warning."""
    if diagnosis.count(FindingSeverity.ERROR):
        return BROKEN
    return WARNED if diagnosis.count(FindingSeverity.WARNING) or diagnosis.incomplete else 0


def _pod(args: argparse.Namespace, evidence: Examined) -> PodSight:
    title = f"{args.namespace}/{args.pod}"
    found = [each for each in evidence.pods if each.title == title]
    if found:
        return found[-1]
    if any(each.pod == title for each in evidence.happenings):
        return PodSight("", args.namespace, args.pod)
    if not evidence.kubelet.is_ours and not args.objects:
        show_note("Pods of a kubelet are known by /var/log/pods and its log; --objects FILE tells of more.")
    raise PodNotFound(title)


def _resources(pod: PodSight, evidence: Examined) -> set[str]:
    held = {each.resource for each in evidence.checkpoint.entries if each.pod_uid == pod.uid}
    return held | {name for each in pod.containers for name in each.limits if "/" in name}


def _host(args: argparse.Namespace) -> Host:
    from plugbay.node.roots import kubelet_root

    now_s = SystemClock().now().timestamp()
    if (mount := chosen_host(args)) != HOST:
        return Host(now_s, mount, root_on_host(args, mount))
    if args.root is not None or args.node:
        return Host(now_s, kubelet_root=chosen_root(args))
    found = kubelet_root(os.environ, os.geteuid(), is_node_up=lambda _: False).path.absolute()
    return Host(now_s, kubelet_root=found, other_root=_other(args, found))


def _other(args: argparse.Namespace, found: Path) -> str:
    """The root of our own node, if it is up beside the kubelet that is meant."""
    from plugbay.cli.arguments.starting import is_node_up

    own = chosen_root(args)
    return str(own) if own != found and is_node_up(own) else ""


def _checks(text: str) -> tuple[Check, ...]:
    """Checks by ID or group; for ``type=`` of an argument."""
    chosen: list[Check] = []
    for name in text.split(","):
        group = name.upper().removesuffix("XX")
        found = [check_named(name)] if group == name.upper() else [c for c in CHECKS if c.id[:-2] == group]
        if not any(found):
            raise argparse.ArgumentTypeError(f"{name!r} is not a check; plugbay doctor --list shows them")
        chosen += [each for each in found if each is not None]
    return tuple(chosen)
