"""``plugbay cdi generate``: make a spec of the devices that a plugin finds."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable

from plugbay.cdi.directories import save, spec_name
from plugbay.cdi.host import find_node
from plugbay.cdi.names import CdiKind, parse_kind
from plugbay.cdi.rules import check_spec
from plugbay.cdi.spec import Spec
from plugbay.cdi.spec import SpecDevice as Entry
from plugbay.cdi.text import Format, write_spec
from plugbay.cdi.versions import minimum_version
from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import DESCRIPTION, add_targets, load_targets
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_error
from plugbay.errors import InvalidDevice
from plugbay.model.devices import Device
from plugbay.sdk.cdi.entries import entries_of
from plugbay.sdk.inspection.survey import plugins_now, survey


def declare(parser: CommandParser) -> None:
    parser.describe(
        f"Set a plugin up, look for its devices once, and print a spec that gives what they give. A device "
        f"that CDI cannot express is left out, and named on standard error; then the exit code is 1. {DESCRIPTION}",
        takes_more="targets",
        examples=(
            "plugbay cdi generate --kind vendor.example/gopher gophers.py",
            "plugbay cdi generate --kind vendor.example/gopher gophers.py --write /etc/cdi",
        ),
        run=generate,
    )
    add_targets(
        parser,
        help="the plugins whose devices are described",
        about="Print a CDI spec of the devices that are found now",
        add_options=_add_generate_options,
        needs="--kind vendor.example/gopher",
    )


def _add_generate_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--kind", required=True, metavar="VENDOR/CLASS", help="the kind of the spec")
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), default="yaml", help="form of output (default: %(default)s)"
    )
    parser.add_argument(
        "--write", metavar="DIR", type=path_of, help="replace VENDOR-CLASS.yaml or .json in this directory instead"
    )


def generate(args: argparse.Namespace) -> int:
    """Generate a spec; returns 1 if CDI cannot express a device, which the spec then lacks."""
    configure_logs("error", sys.stderr)
    kind = parse_kind(args.kind)
    members = [member for _, members in load_targets(args) for member in members]
    found = [device for plugin in asyncio.run(plugins_now(members)) for device in asyncio.run(survey(plugin))]
    entries, problems = _entries(found)
    for problem in problems:
        show_error(problem)
    if problems and not entries:
        return 1
    spec = _spec(kind, entries)
    form = Format(f".{args.output}")
    if args.write is None:
        show(write_spec(spec, form).removesuffix("\n") + "\n")
    else:
        path = save(spec, args.write, spec_name(kind.vendor, kind.device_class), form=form)
        show(f"{path}\n")
    return 1 if problems else 0


def _entries(devices: Iterable[Device]) -> tuple[tuple[Entry, ...], list[InvalidDevice]]:
    """The entry of each device, named as a plugin with a CDI kind names it; and problems of inexpressible devices."""
    entries: list[Entry] = []
    problems: list[InvalidDevice] = []
    for device in devices:
        try:
            entries.append(entries_of(device, find_node)[0])  # a second one is for the answers of the plugin itself
        except InvalidDevice as error:
            problems.append(error)
    return tuple(entries), problems


def _spec(kind: CdiKind, devices: tuple[Entry, ...]) -> Spec:
    version = minimum_version(Spec(kind=str(kind), devices=devices))
    spec = Spec(version, str(kind), devices=devices)
    check_spec(spec, source=str(kind))
    return spec
