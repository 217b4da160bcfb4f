"""What the ``plugbay cdi`` commands do."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import default_directories, read_file, save, scan, spec_name
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import OciSpec, inject
from plugbay.cdi.names import Kind, QualifiedName, parse_kind, parse_qualified_name
from plugbay.cdi.registry import Registry
from plugbay.cdi.rules import check_spec
from plugbay.cdi.spec import Device as Entry
from plugbay.cdi.spec import Spec
from plugbay.cdi.text import Format, plain, read_spec, write_spec
from plugbay.cdi.versions import minimum_version
from plugbay.cli.inputs import STDIN, input_name, read_input
from plugbay.cli.output import Form, list_of, object_text, show, show_error, show_note
from plugbay.cli.table import Columns
from plugbay.cli.targets import load_targets
from plugbay.errors import InvalidCdiSpec, InvalidDevice, PathUnusable, PlugbayError, UsageError
from plugbay.model.devices import Device

_ROOT: Final = Path("/")
_HEADER: Final = ("DEVICE", "VERSION", "FILE")


def list_devices(args: argparse.Namespace) -> int:
    registry = _scanned(args)
    entries = sorted(registry.devices.items())
    if args.output == "name":
        show("".join(f"{name}\n" for name, _ in entries))
    elif args.output:
        items: list[dict[str, object]] = [
            {"name": str(name), "cdiVersion": each.file.spec.version, "path": each.file.path} for name, each in entries
        ]
        show(object_text(list_of(items), Form(args.output)))
    elif entries:
        show(Columns(_HEADER).table((str(name), each.file.spec.version, each.file.path) for name, each in entries))
    else:
        show_note("No CDI devices found.")
    return 0


def show_devices(args: argparse.Namespace) -> int:
    edits = _scanned(args).edits(_names(args))
    show(object_text(plain(edits), Form(args.output)))
    return 0


def validate(args: argparse.Namespace) -> int:
    """Returns 1 when there is a file that no engine would use, or not all of it."""
    if args.files and args.directories:
        raise UsageError("give files or directories, not both")
    if args.files:
        return max([_validate_file(file) for file in args.files])
    registry = scan(_directories(args))
    for problem in _problems(registry):
        show_error(problem)
    files = {entry.file.path for entry in registry.devices.values()} - set(registry.problems)
    show("".join(f"{path}: valid\n" for path in sorted(files)))
    if not files and not registry.problems:
        show_note("No CDI specs found.")
    return 1 if registry.problems else 0


def inject_devices(args: argparse.Namespace) -> int:
    oci = _oci_spec(args.file)
    edits = _scanned(args).edits(_names(args))
    show(json.dumps(inject(edits, oci, partial(host_node, root=_ROOT)), indent=4) + "\n")
    return 0


def generate(args: argparse.Namespace) -> int:
    """Returns 1 when there is a device that CDI cannot express; the spec is of the others."""
    import asyncio

    from plugbay.cli.logs import configure_logs
    from plugbay.sdk.survey import plugins_now, survey

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
    """What a spec says of each device, called as a plugin with a CDI kind calls it; and what it cannot say."""
    from plugbay.cdi.host import find_node
    from plugbay.sdk.cdi.entries import entries_of

    entries: list[Entry] = []
    problems: list[InvalidDevice] = []
    for device in devices:
        try:
            entries.append(entries_of(device, find_node)[0])  # a second one is for the answers of the plugin itself
        except InvalidDevice as error:
            problems.append(error)
    return tuple(entries), problems


def _spec(kind: Kind, devices: tuple[Entry, ...]) -> Spec:
    version = minimum_version(Spec(kind=str(kind), devices=devices))
    spec = Spec(version, str(kind), devices=devices)
    check_spec(spec, source=str(kind))
    return spec


def _validate_file(file: str) -> int:
    try:
        if file == STDIN:
            read_spec(_text(file), source=input_name(file))
        else:
            read_file(Path(file))
            if Path(file).suffix not in {each.value for each in Format}:
                raise InvalidCdiSpec(file, "engines read files that end with .json or .yaml only")
    except PlugbayError as error:
        show_error(error)
        return 1
    show(f"{input_name(file)}: valid\n")
    return 0


def _oci_spec(file: str) -> OciSpec:
    try:
        oci = json.loads(_text(file))
    except json.JSONDecodeError as error:
        raise PathUnusable(file, f"line {error.lineno}, column {error.colno} is not JSON") from error
    except RecursionError as error:
        raise PathUnusable(file, "is nested too deeply") from error
    if not isinstance(oci, dict) or "ociVersion" not in oci:
        raise PathUnusable(file, "is not an OCI runtime spec: it has no ociVersion")
    return oci


def _text(file: str) -> str:
    try:
        return read_input(file).decode()
    except UnicodeDecodeError as error:
        raise PathUnusable(input_name(file), f"byte {error.start} is not UTF-8") from error


def _scanned(args: argparse.Namespace) -> Registry:
    registry = scan(_directories(args))
    for problem in _problems(registry):
        show_note(f"warning: {problem}")
    return registry


def _problems(registry: Registry) -> Iterator[InvalidCdiSpec]:
    for path in sorted(registry.problems):
        yield from registry.problems[path]


def _directories(args: argparse.Namespace) -> tuple[Path, ...]:
    return tuple(args.directories) if args.directories else default_directories(_ROOT)


def _names(args: argparse.Namespace) -> list[QualifiedName]:
    return [parse_qualified_name(name) for name in args.names]
