"""``plugbay pod apply``: make pods as their manifests have them; a second call changes nothing."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.options import add_output, add_root
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, pod_path, pods_path
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.kubectl.manifests import manifest_pods
from plugbay.cli.pod.image_warning import warn_of_images
from plugbay.cli.pod.options import add_filename, add_lenient, add_manifest_namespace
from plugbay.cli.printing.output import show, show_error
from plugbay.documents import Json
from plugbay.errors import RequestRefused, UsageError, quote
from plugbay.printers import v1


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Create the pods that do not exist, and change the pods that do; a pod that fits stays. "
        "All manifests are checked before anything is sent. Of a pod that exists only some fields can change: "
        "the node says which.",
        examples=("plugbay pod apply -f pods/", "generate-pods | plugbay pod apply -f -"),
        run=apply_pods,
    )
    add_filename(parser, required=True)
    add_lenient(parser)
    add_manifest_namespace(parser)
    add_output(parser)
    add_root(parser)


def apply_pods(args: argparse.Namespace) -> int:
    """Create the missing pods and change the others; do nothing at all if a manifest is wrong."""
    pods = manifest_pods(args)
    for pod in pods:
        if not v1.name(pod):
            base = quote(v1.text(pod, "metadata", "generateName"))
            raise UsageError(
                f"a pod with generateName {base} cannot be applied: its name is new each time; use pod run"
            )
    form = Form(args.output)
    client = NodeClient(chosen_root(args))
    failed = False
    changed: list[Json] = []
    for pod in pods:
        try:
            applied, what = _apply(client, pod)
        except RequestRefused as error:
            show_error(error)
            failed = True
        else:
            show(f"pod/{v1.name(pod)} {what}\n" if form.is_table else object_text(applied, form))
            changed += [applied] if what == "created" else []
    warn_of_images(client, changed)
    return int(failed)


def _apply(client: NodeClient, pod: Json) -> tuple[Json, str]:
    """The pod as it is now, and kubectl's word for the change."""
    path = pod_path(v1.namespace(pod), v1.name(pod))
    before = client.find(path)
    if before is None:
        return client.create(pods_path(v1.namespace(pod)), pod), "created"
    applied = client.replace(path, pod)
    return applied, "unchanged" if _version(before) == _version(applied) else "configured"


def _version(pod: Json) -> str:
    return v1.text(pod, "metadata", "resourceVersion")
