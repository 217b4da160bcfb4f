"""``plugbay devices``: show the devices that plugins would offer now."""

from __future__ import annotations

import argparse
import asyncio
import sys

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import DESCRIPTION, add_targets, load_targets
from plugbay.cli.kubectl.forms import Form, list_of, object_text
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_error, show_note, show_page
from plugbay.cli.printing.table import NONE, Columns
from plugbay.documents import Json
from plugbay.errors import PlugbayError
from plugbay.model.attributes import AttributeValue
from plugbay.model.devices import Device
from plugbay.model.sharing import Replicas
from plugbay.sdk.author.near_misses import near_hooks
from plugbay.sdk.discovery.host_paths import REASON, missing_paths
from plugbay.sdk.inspection.survey import plugins_now, survey

_HEADER = ("RESOURCE", "DEVICE", "HEALTH", "NUMA", "REPLICAS")


def declare(parser: CommandParser) -> None:
    parser.describe(
        f"Set plugins up, look for their devices and check their health once, and show what a kubelet "
        f"would be offered. No kubelet is contacted. {DESCRIPTION}",
        takes_more="targets",
        examples=(
            "plugbay devices gophers.py",
            "plugbay devices gophers.py -o yaml",
            "plugbay devices --config plugins.yaml",
            "plugbay devices directory --resource example.com/gopher --path /etc/gophers --env Gopher",
        ),
        run=run,
    )
    add_targets(
        parser,
        help="the plugins whose devices are shown",
        about="Show the devices that a kubelet would be offered now",
        add_options=_add_options,
    )


def _add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="", help="all that is known of each device, as YAML or JSON"
    )


def run(args: argparse.Namespace) -> int:
    """Show all devices that were found; returns 1 when a plugin failed."""
    configure_logs("error", sys.stderr)
    found: list[tuple[str, Device]] = []
    exit_code = 0
    for member in (member for _, members in load_targets(args) for member in members):
        try:
            for plugin in asyncio.run(plugins_now([member])):
                for near in near_hooks(type(plugin)):
                    show_note(f"{plugin.resource_name}: {near}")
                found += [(plugin.resource_name, device) for device in asyncio.run(survey(plugin))]
        except PlugbayError as error:
            show_error(error)
            exit_code = 1
    if args.output:
        show(object_text(list_of(_as_json(resource, device) for resource, device in found), Form(args.output)))
    elif found:
        show_page(Columns(_HEADER).table(_row(resource, device) for resource, device in found))
    elif not exit_code:
        show_note("No devices found.")
    return exit_code


def _row(resource: str, device: Device) -> tuple[str, ...]:
    nodes = ",".join(map(str, sorted(device.numa_nodes)))
    count = len(device.listed()) if _is_shared(device) else 0
    return resource, device.id, _health(device), nodes or NONE, str(count) if count else NONE


def _health(device: Device) -> str:
    """The health of a device, with the host paths that it names and that are missing: its container would fail."""
    missing = missing_paths(device)
    if not missing or device.health.reason == REASON:
        return str(device.health)
    return f"{device.health}; {', '.join(missing)} does not exist"


def _is_shared(device: Device) -> bool:
    return isinstance(device.sharing, Replicas)


def _as_json(resource: str, device: Device) -> Json:
    edits = device.edits
    known: Json = {
        "resourceName": resource,
        "id": device.id,
        "name": device.name,
        "deviceIDs": [each.id for each in device.listed()],
        "health": {
            "state": device.health.state.value,
            "reason": device.health.reason,
            "message": device.health.message,
        },
        "numaNodes": sorted(device.numa_nodes),
        "attributes": {key: _plain(value) for key, value in device.attributes.items()},
        "capacity": {key: str(amount) for key, amount in device.capacity.items()},
        "env": dict(edits.env),
        "mounts": [
            {"containerPath": each.container_path, "hostPath": each.host_path, "readOnly": each.read_only}
            for each in edits.mounts
        ],
        "deviceNodes": [
            {"containerPath": each.container_path, "hostPath": each.host_path, "permissions": each.permissions}
            for each in edits.device_nodes
        ],
        "annotations": dict(edits.annotations),
        "cdiDevices": list(edits.cdi_devices),
        "missingPaths": list(missing_paths(device)),
    }
    return {key: value for key, value in known.items() if value not in ({}, [], "")}


def _plain(value: AttributeValue) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | str) else str(value)
