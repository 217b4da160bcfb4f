"""``plugbay pod run``: pods from manifests, or one from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, pods_path
from plugbay.cli.output import Form, object_text, show, show_error, show_note
from plugbay.cli.roots import chosen_root
from plugbay.errors import InvalidManifest, PathUnusable, RequestRefused, UsageError
from plugbay.model.pods import DEFAULT_NAMESPACE, Pod
from plugbay.node.manifest import Strictness, load_pods, pod_from_v1, pod_to_v1

_STDIN: Final = "-"


def run_pods(args: argparse.Namespace) -> int:
    """Create every pod that can be created; nothing at all when a manifest is wrong."""
    _check(args)
    if args.filename:
        pods = [_placed(pod, args.namespace) for pod in _load(args)]
    else:
        pods = [pod_to_v1(pod_from_v1(_pod(args), source=f"pod/{args.name}"))]
    form = Form(args.output)
    client = NodeClient(chosen_root(args))
    failed = False
    for pod in pods:
        try:
            made = pod if args.dry_run else client.create(pods_path(v1.namespace(pod)), pod)
        except RequestRefused as error:
            show_error(error)
            failed = True
        else:
            _show_made(made, form, dry_run=args.dry_run)
    return int(failed)


def _show_made(pod: v1.Json, form: Form, *, dry_run: bool) -> None:
    if form.is_table:
        name = v1.name(pod) or v1.text(pod, "metadata", "generateName") + "*"
        show(f"pod/{name} created{' (dry run)' if dry_run else ''}\n")
    else:
        show(object_text(pod, form))


def _check(args: argparse.Namespace) -> None:
    inline = [
        option
        for option, given in (
            (f"NAME ({args.name})", args.name),
            ("--resource", args.resource),
            ("--env", args.env),
            ("--restart", args.restart),
            ("-- CMD", args.command),
        )
        if given
    ]
    if args.filename and inline:
        raise UsageError(f"-f takes everything from the manifest; {inline[0]} cannot be added")
    if not args.filename and not args.name:
        raise UsageError("say what to run: -f FILE, or NAME -- CMD")
    if not args.filename and not args.command:
        raise UsageError(f"say which command pod {args.name} runs, after --; images are not used")


# --- from manifests ------------------------------------------------------------------------------------------------


def _load(args: argparse.Namespace) -> list[Pod]:
    """The pods of all manifests; what is wrong with any of them is told together."""
    mode = Strictness.LENIENT if args.lenient else Strictness.STRICT
    pods: list[Pod] = []
    problems: list[InvalidManifest] = []
    for filename in args.filename:
        try:
            source = "standard input" if filename == _STDIN else filename
            found, warnings = load_pods(_text(filename), source=source, mode=mode)
        except InvalidManifest as error:
            problems += [error, *error.more]
            continue
        pods += found
        for warning in warnings:
            show_note(f"warning: {warning}")
    if problems:
        first, *more = problems
        raise InvalidManifest(first.problem, field=first.field, line=first.line, source=first.source, more=more)
    return pods


def _text(filename: str) -> str:
    try:
        content = sys.stdin.buffer.read() if filename == _STDIN else Path(filename).read_bytes()
    except OSError as error:
        raise PathUnusable(filename, f"cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PathUnusable(filename, "is not UTF-8 text") from error


def _placed(pod: Pod, namespace: str | None) -> v1.Json:
    """The v1 object of ``pod``; ``namespace`` counts for a pod that names none."""
    value = pod_to_v1(pod)
    if namespace is None or namespace == pod.namespace:
        return value
    if pod.namespace != DEFAULT_NAMESPACE:
        raise UsageError(
            f"pod {pod.name} is of namespace {pod.namespace}, and --namespace says {namespace}; "
            f"pass --namespace={pod.namespace} or none"
        )
    return value | {"metadata": v1.mapping(value, "metadata") | {"namespace": namespace}}


# --- from the command line -----------------------------------------------------------------------------------------


def _pod(args: argparse.Namespace) -> v1.Json:
    """A pod as kubectl run makes it: one container, named like the pod.

    The words after ``--`` are the command, not its arguments: there is no image whose entrypoint could take them.
    """
    amounts = dict(_pair(text, option="--resource", form="R=N") for text in args.resource)
    env = [_pair(text, option="--env", form="K=V") for text in args.env]
    container: v1.Json = {"name": args.name, "command": args.command}
    container |= {"env": [{"name": key, "value": value} for key, value in env]} if env else {}
    container |= {"resources": {"limits": amounts}} if amounts else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": args.name,
            "namespace": args.namespace or DEFAULT_NAMESPACE,
            "labels": {"run": args.name},
        },
        "spec": {"containers": [container], "restartPolicy": args.restart or "Always"},
    }


def _pair(text: str, *, option: str, form: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise UsageError(f"{option} wants {form}, found {text!r}")
    return key, value
