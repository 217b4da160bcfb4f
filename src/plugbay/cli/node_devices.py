"""``plugbay node devices``."""

from __future__ import annotations

import argparse

from plugbay.cli import v1
from plugbay.cli.client import DEVICES_PATH, NodeClient
from plugbay.cli.holdings import health_text, holder_text
from plugbay.cli.node_describe import RELEASING
from plugbay.cli.output import Form, chosen_form, list_of, object_text, show, show_error, show_note, show_page
from plugbay.cli.roots import chosen_root
from plugbay.cli.table import NONE, Columns

_HEADER = ("RESOURCE", "DEVICE", "HEALTH", "NUMA", "HELD-BY")


def show_devices(args: argparse.Namespace) -> int:
    """Returns 1 when a resource was asked for that the node does not know."""
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


def _owner(resource: v1.Json) -> v1.Json:
    return {
        "resourceName": v1.text(resource, "resourceName"),
        "plugin": v1.text(resource, "endpoint", "state") or "Gone",
    }


def _show_table(resources: list[v1.Json], *, wide: bool, may_be_empty: bool) -> None:
    rows = [
        (*_row(resource, device), *(_plugin(resource) if wide else ()))
        for resource in resources
        for device in v1.objects(resource, "devices")
    ]
    if rows:
        show_page(Columns((*_HEADER, *(("PLUGIN", "SOCKET") if wide else ()))).table(rows))
    elif not may_be_empty:
        show_note("No devices found.")


def _row(resource: v1.Json, device: v1.Json) -> tuple[str, ...]:
    return (
        v1.text(resource, "resourceName"),
        v1.text(device, "id"),
        health_text(device),
        ",".join(v1.texts(device, "numaNodes")) or NONE,
        RELEASING if device.get("releasing") is True else holder_text(device.get("holder")),
    )


def _plugin(resource: v1.Json) -> tuple[str, str]:
    endpoint = v1.mapping(resource, "endpoint")
    return v1.text(endpoint, "state") or "Gone", v1.text(endpoint, "socket") or NONE
