"""``plugbay node devices``."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.options import add_output_or_template, add_root
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import DEVICES_PATH, NodeClient
from plugbay.cli.kubectl.forms import Form, chosen_form, list_of, object_text
from plugbay.cli.kubectl.holdings import health_text, holder_text
from plugbay.cli.node.page import RELEASING
from plugbay.cli.printing.output import show, show_error, show_note, show_page
from plugbay.cli.printing.table import NONE, Columns
from plugbay.documents import Json
from plugbay.printers import v1

_HEADER = ("RESOURCE", "DEVICE", "HEALTH", "NUMA", "HELD-BY")


def declare(parser: CommandParser) -> None:
    parser.describe(
        "List the devices that plugins have offered to the node, with their health and which container "
        "holds each; -o wide shows the state of their plugins too. `plugbay devices` asks a plugin instead.",
        examples=(
            "plugbay node devices",
            "plugbay node devices example.com/gopher -o json",
            "plugbay node devices -o jsonpath='{.items[*].id}'",
        ),
        run=show_devices,
    )
    parser.add_argument("resources", nargs="*", metavar="RESOURCE", help="only devices of these resources")
    add_output_or_template(parser)
    add_root(parser)


def show_devices(args: argparse.Namespace) -> int:
    """Print the devices; returns 1 if the node does not know a resource that was asked for."""
    resources = v1.objects(NodeClient(chosen_root(args)).get(DEVICES_PATH), "resources")
    known = {v1.text(each, "resourceName"): each for each in resources}
    unknown = [name for name in args.resources if name not in known]
    for name in unknown:
        show_error(f"the node has no resource {name}: no plugin has offered it")
    wanted = [known[name] for name in args.resources or known if name in known]
    form, text = chosen_form(args.output)
    if form.is_table:
        _show_table(wanted, wide=form is Form.WIDE, may_be_empty=bool(unknown))
        return int(bool(unknown))
    items = [{**device, **_owner(resource)} for resource in wanted for device in v1.objects(resource, "devices")]
    if form is Form.NAME:
        show("".join(f"{item['resourceName']}={item['id']}\n" for item in items))
    else:
        show(text(list_of(items)) if text else object_text(list_of(items), form))
    return int(bool(unknown))


def _owner(resource: Json) -> Json:
    return {
        "resourceName": v1.text(resource, "resourceName"),
        "plugin": v1.text(resource, "endpoint", "state") or "Gone",
    }


def _show_table(resources: list[Json], *, wide: bool, may_be_empty: bool) -> None:
    rows = [
        (*_row(resource, device), *(_plugin(resource) if wide else ()))
        for resource in resources
        for device in v1.objects(resource, "devices")
    ]
    if rows:
        show_page(Columns((*_HEADER, *(("PLUGIN", "SOCKET") if wide else ()))).table(rows))
    elif not may_be_empty:
        show_note("No devices found.")


def _row(resource: Json, device: Json) -> tuple[str, ...]:
    return (
        v1.text(resource, "resourceName"),
        v1.text(device, "id"),
        health_text(device),
        ",".join(v1.texts(device, "numaNodes")) or NONE,
        RELEASING if device.get("releasing") is True else holder_text(device.get("holder")),
    )


def _plugin(resource: Json) -> tuple[str, str]:
    endpoint = v1.mapping(resource, "endpoint")
    return v1.text(endpoint, "state") or "Gone", v1.text(endpoint, "socket") or NONE
