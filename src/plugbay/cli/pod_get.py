"""``plugbay pod get`` and ``plugbay pod describe``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from plugbay.cli import v1
from plugbay.cli.client import DEVICES_PATH, NodeClient, events_path, pod_path, pods_path, selecting
from plugbay.cli.holdings import pod_holdings
from plugbay.cli.listing import Listing, named, show_found, show_nothing_found
from plugbay.cli.output import Form, chosen_form, list_of, object_text, show, show_page
from plugbay.cli.parsing import chosen_namespace
from plugbay.cli.pod_describe import pod_description
from plugbay.cli.roots import chosen_root
from plugbay.cli.rows import View, pod_view, wide_pod_view
from plugbay.errors import UsageError


def get_pods(args: argparse.Namespace) -> int:
    _check(args)
    client = NodeClient(chosen_root(args))
    form, text = chosen_form(args.output)
    pods, failed = _wanted(client, args)
    listing = Listing(lambda: _view(client, args), form, text=text)
    if args.watch:
        listing.show_each(pods)
    else:
        show_found(listing, args, pods)
    if not pods and not failed and form.is_table:
        show_nothing_found(chosen_namespace(args))
    if args.watch and not failed:
        with client.watch(pods_path(chosen_namespace(args)), selecting(args.selector)) as changes:
            for change in changes:
                if not args.names or v1.name(change.object) in args.names:
                    listing.show_change(change)
    return int(failed)


def describe_pods(args: argparse.Namespace) -> int:
    _check(args)
    client = NodeClient(chosen_root(args))
    pods, failed = _wanted(client, args)
    if not pods and not failed:
        show_nothing_found(chosen_namespace(args))
    if not pods:
        return int(failed)
    devices = client.get(DEVICES_PATH)
    about = [(pod, _events(client, pod)) for pod in pods]
    if args.output:
        pages: list[v1.Json] = [
            {"pod": pod, "devices": pod_holdings(devices, v1.uid(pod)), "events": events} for pod, events in about
        ]
        show(object_text(pages[0] if len(pages) == 1 else list_of(pages), Form(args.output)))
    else:
        now = datetime.now(UTC)
        show_page(
            "\n\n".join(pod_description(pod, devices=devices, events=each, now=now, zone=None) for pod, each in about)
        )
    return int(failed)


def _wanted(client: NodeClient, args: argparse.Namespace) -> tuple[list[v1.Json], bool]:
    if args.names:
        return named(args.names, lambda name: client.get(pod_path(args.namespace, name)))
    return v1.objects(client.get(pods_path(chosen_namespace(args)), selecting(args.selector)), "items"), False


def _check(args: argparse.Namespace) -> None:
    if args.names and args.selector:
        raise UsageError("name the pods or say -l, not both")
    if args.names and args.all_namespaces:
        raise UsageError("a name means a pod of one namespace: say -n NS with it, not -A")


def _view(client: NodeClient, args: argparse.Namespace) -> View:
    view = wide_pod_view(client.get(DEVICES_PATH)) if args.output == Form.WIDE.value else pod_view()
    return view.with_namespaces() if args.all_namespaces else view


def _events(client: NodeClient, pod: v1.Json) -> list[v1.Json]:
    about = client.get(events_path(v1.namespace(pod)), {"involvedObject": v1.name(pod)})
    return [each for each in v1.objects(about, "items") if v1.text(each, "involvedObject", "uid") == v1.uid(pod)]
