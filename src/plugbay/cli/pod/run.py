"""``plugbay pod run``: pods from manifests, or one from the command line."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.options import add_output, add_root, name_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, pods_path
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.kubectl.manifests import manifest_pods
from plugbay.cli.pod.image_warning import warn_of_images
from plugbay.cli.pod.options import add_filename, add_lenient, add_manifest_namespace
from plugbay.cli.printing.output import show, show_error
from plugbay.documents import Json
from plugbay.errors import RequestRefused, UsageError
from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.model.pods import DEFAULT_NAMESPACE
from plugbay.printers import v1


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Create the pods of manifests (-f), or one pod with a single container that runs CMD.",
        usage="plugbay pod run -f FILE|DIR|- [options]\n"
        "       plugbay pod run NAME [--resource R=N] [--env K=V] [options] -- CMD ...\n"
        "       plugbay pod run NAME --image IMAGE [options] [-- CMD ...]",
        takes_command=True,
        examples=(
            "plugbay pod run -f pod.yaml",
            "plugbay pod run job --restart Never --resource example.com/gopher=1 -- sh -c 'echo $Gopher'",
        ),
        run=run_pods,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", type=name_of, help="name of the pod, and of its container")
    add_filename(parser)
    parser.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="R=N",
        help="give the container N of resource R, such as example.com/gopher=1; may be repeated",
    )
    parser.add_argument("--image", help="for a node with --runtime cri; CMD takes the place of its entrypoint")
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="set a variable; may be repeated")
    parser.add_argument(
        "--restart",
        choices=("Always", "OnFailure", "Never"),
        help="restart policy (default: Always); not with -f",
    )
    add_lenient(parser)
    parser.add_argument(
        "--dry-run",
        nargs="?",
        choices=("none", "client", "server"),
        default="none",
        const="client",
        help="check the manifest here and create nothing (client, which --dry-run alone means); the node cannot be "
        "asked to check (server)",
    )
    add_manifest_namespace(parser)
    add_output(parser)
    add_root(parser)


def run_pods(args: argparse.Namespace) -> int:
    """Create every pod that can be created; do nothing at all if a manifest is wrong."""
    _check(args)
    if args.filename:
        pods = manifest_pods(args)
    else:
        pods = [pod_to_v1(pod_from_v1(_pod(args), source=f"pod/{args.name}"))]
    form = Form(args.output)
    client = NodeClient(chosen_root(args))
    dry_run = args.dry_run == "client"
    failed = False
    created: list[Json] = []
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


def _show_made(pod: Json, form: Form, *, dry_run: bool) -> None:
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


def _pod(args: argparse.Namespace) -> Json:
    """A pod as kubectl run makes it: one container, named like the pod.

    The words after ``--`` are the command, with an image too: most runtimes have none whose entrypoint could take them.
    """
    amounts = dict(_pair(text, option="--resource", form="R=N") for text in args.resource)
    env = [_pair(text, option="--env", form="K=V") for text in args.env]
    container: Json = {"name": args.name}
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
