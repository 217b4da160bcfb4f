"""``plugbay pod apply``: pods as the manifests have them, however often it is said."""

from __future__ import annotations

import argparse

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, pod_path
from plugbay.cli.image_warning import warn_of_images
from plugbay.cli.manifests import manifest_pods
from plugbay.cli.output import Form, object_text, show, show_error
from plugbay.cli.roots import chosen_root
from plugbay.errors import RequestRefused, UsageError, quote


def apply_pods(args: argparse.Namespace) -> int:
    """Create the pods that are not there and change the others; nothing at all when a manifest is wrong."""
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
    changed: list[v1.Json] = []
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


def _apply(client: NodeClient, pod: v1.Json) -> tuple[v1.Json, str]:
    """The pod as it is now, and kubectl's word for what that took."""
    path = pod_path(v1.namespace(pod), v1.name(pod))
    before = _version(client.find(path))
    applied = client.replace(path, pod)
    if not before:
        return applied, "created"
    return applied, "unchanged" if before == _version(applied) else "configured"


def _version(pod: v1.Json | None) -> str:
    return v1.text(pod, "metadata", "resourceVersion")
