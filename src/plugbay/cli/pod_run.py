"""``plugbay pod run``: pods from manifests, or one from the command line."""

from __future__ import annotations

import argparse

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, pods_path
from plugbay.cli.image_warning import warn_of_images
from plugbay.cli.manifests import manifest_pods
from plugbay.cli.output import Form, object_text, show, show_error
from plugbay.cli.roots import chosen_root
from plugbay.errors import RequestRefused, UsageError
from plugbay.model.pods import DEFAULT_NAMESPACE
from plugbay.node.manifest import pod_from_v1, pod_to_v1


def run_pods(args: argparse.Namespace) -> int:
    """Create every pod that can be created; nothing at all when a manifest is wrong."""
    _check(args)
    if args.filename:
        pods = manifest_pods(args)
    else:
        pods = [pod_to_v1(pod_from_v1(_pod(args), source=f"pod/{args.name}"))]
    form = Form(args.output)
    client = NodeClient(chosen_root(args))
    dry_run = args.dry_run == "client"
    failed = False
    created: list[v1.Json] = []
    for pod in pods:
        try:
            made = pod if dry_run else client.create(pods_path(v1.namespace(pod)), pod)
        except RequestRefused as error:
            show_error(error)
            failed = True
        else:
            _show_made(made, form, dry_run=dry_run)
            created.append(made)
    if not dry_run:
        warn_of_images(client, created)
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
            ("--image", args.image),
            ("-- CMD", args.command),
        )
        if given
    ]
    if args.dry_run == "server":
        raise UsageError("--dry-run=server: the node cannot check without creating; --dry-run=client checks here")
    if args.filename and inline:
        raise UsageError(f"-f takes everything from the manifest; {inline[0]} cannot be added")
    if not args.filename and not args.name:
        raise UsageError("say what to run: -f FILE, or NAME -- CMD")
    if not args.filename and not args.command and not args.image:
        raise UsageError(f"say which command pod {args.name} runs, after --, or which image")


# --- from the command line -----------------------------------------------------------------------------------------


def _pod(args: argparse.Namespace) -> v1.Json:
    """A pod as kubectl run makes it: one container, named like the pod.

    The words after ``--`` are the command, with an image too: most runtimes have none whose entrypoint could take them.
    """
    amounts = dict(_pair(text, option="--resource", form="R=N") for text in args.resource)
    env = [_pair(text, option="--env", form="K=V") for text in args.env]
    container: v1.Json = {"name": args.name}
    container |= {"image": args.image} if args.image else {}
    container |= {"command": args.command} if args.command else {}
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
