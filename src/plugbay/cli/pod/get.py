"""``plugbay pod get`` and ``plugbay pod describe``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from plugbay.cli.arguments.names import pod_name
from plugbay.cli.arguments.options import (
    add_all_namespaces,
    add_namespace,
    add_output_or_template,
    add_page_output,
    add_root,
    add_selector,
    chosen_namespace,
)
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import DEVICES_PATH, NodeClient, events_path, pod_path, pods_path, selecting
from plugbay.cli.kubectl.forms import Form, chosen_form, list_of, object_text
from plugbay.cli.kubectl.holdings import pod_holdings
from plugbay.cli.kubectl.listing import ObjectPrinter, named, show_found, show_nothing_found
from plugbay.cli.kubectl.rows import View, pod_view, wide_pod_view
from plugbay.cli.pod.page import pod_description
from plugbay.cli.printing.output import show, show_page
from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.printers import v1


def declare_get(parser: CommandParser) -> None:
    parser.describe(
        "List pods; -o wide shows their devices too.",
        examples=(
            "plugbay pod get -A -o wide",
            "plugbay pod get web -w",
            "plugbay pod get -l app=web",
            "plugbay pod get web -o jsonpath='{.status.phase}'",
        ),
        run=get_pods,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="only these")
    add_selector(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change")
    add_namespace(parser)
    add_all_namespaces(parser)
    add_output_or_template(parser)
    add_root(parser)


def declare_describe(parser: CommandParser) -> None:
    parser.describe(
        "Show all about pods: the states of their containers, which devices each holds, how these are and "
        "what came with them, and what happened. With -o, the members are pod, devices and events.",
        examples=("plugbay pod describe web", "plugbay pod describe web -o json"),
        run=describe_pods,
    )
    add_page_output(parser)
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="only these")
    add_selector(parser)
    add_namespace(parser)
    add_all_namespaces(parser)
    add_root(parser)


def get_pods(args: argparse.Namespace) -> int:
    _check(args)
    client = NodeClient(chosen_root(args))
    form, text = chosen_form(args.output)
    pods, failed = _wanted(client, args)
    printer = ObjectPrinter(lambda: _view(client, args), form, text=text)
    if args.watch:
        printer.show_each(pods)
    else:
        show_found(printer, args, pods)
    if not pods and not failed and form.is_table:
        show_nothing_found(chosen_namespace(args))
    if args.watch and not failed:
        with client.watch(pods_path(chosen_namespace(args)), selecting(args.selector)) as changes:
            for change in changes:
                if not args.names or v1.name(change.object) in args.names:
                    printer.show_change(change)
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
        pages: list[Json] = [
            {"pod": pod, "devices": pod_holdings(devices, v1.uid(pod)), "events": events} for pod, events in about
        ]
        show(object_text(pages[0] if len(pages) == 1 else list_of(pages), Form(args.output)))
    else:
        now = datetime.now(UTC)
        show_page(
            "\n\n".join(pod_description(pod, devices=devices, events=each, now=now, zone=None) for pod, each in about)
        )
    return int(failed)


def _wanted(client: NodeClient, args: argparse.Namespace) -> tuple[list[Json], bool]:
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


def _events(client: NodeClient, pod: Json) -> list[Json]:
    about = client.get(events_path(v1.namespace(pod)), {"fieldSelector": f"involvedObject.name={v1.name(pod)}"})
    return [each for each in v1.objects(about, "items") if v1.text(each, "involvedObject", "uid") == v1.uid(pod)]
