"""``plugbay cdi list``, ``show``, ``validate`` and ``inject``: use specs of the Container Device Interface."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import default_directories, read_file, scan
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import OciSpec, inject
from plugbay.cdi.names import QualifiedName, parse_qualified_name
from plugbay.cdi.registry import Registry
from plugbay.cdi.text import Format, plain, read_spec
from plugbay.cli.arguments.inputs import STDIN, input_name, read_input
from plugbay.cli.arguments.options import file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.kubectl.forms import Form, list_of, object_text
from plugbay.cli.printing.output import show, show_error, show_note
from plugbay.cli.printing.table import Columns
from plugbay.errors import InvalidCdiSpec, PathUnusable, PlugbayError, UsageError

_ROOT: Final = Path("/")
_HEADER: Final = ("DEVICE", "VERSION", "FILE")


def declare_list(parser: CommandParser) -> None:
    parser.describe(
        "List every device that can be injected, and the file that defines it. Bad files are named on "
        "standard error and are not a failure.",
        run=list_devices,
    )
    _add_directories(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="", help="another form of output")


def declare_show(parser: CommandParser) -> None:
    parser.describe(
        "Show all edits that the devices stand for, with the edits of their spec files, in the order in "
        "which they are applied.",
        examples=("plugbay cdi show vendor.example/gopher=g0",),
        run=show_devices,
    )
    _add_names(parser)
    _add_directories(parser)
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), default="yaml", help="form of output (default: %(default)s)"
    )


def declare_validate(parser: CommandParser) -> None:
    parser.describe(
        "Exit with 0 if container engines would use all of the files, with 1 and the reasons if not. "
        "Without a FILE, the files in the spec directories are checked, and against each other.",
        examples=("plugbay cdi validate", "plugbay cdi validate vendor.example-gopher.yaml"),
        run=validate,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", type=file_of, help="a spec; - for standard input")
    _add_directories(parser)


def declare_inject(parser: CommandParser) -> None:
    parser.describe(
        "Print the OCI runtime spec (config.json) with the devices applied, as an engine would.",
        examples=("plugbay cdi inject config.json vendor.example/gopher=g0 vendor.example/gopher=g1",),
        run=inject_devices,
    )
    parser.add_argument("file", metavar="FILE", type=file_of, help="the OCI runtime spec; - for standard input")
    _add_names(parser)
    _add_directories(parser)


def _add_names(parser: CommandParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="a device: vendor/class=name")


def _add_directories(parser: CommandParser) -> None:
    parser.add_argument(
        "--spec-dir",
        action="append",
        dest="directories",
        metavar="DIR",
        type=path_of,
        help="a directory with specs, once for each, the strongest last (default: /etc/cdi, /var/run/cdi)",
    )


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
    """Check spec files; returns 1 if engines would not use one of them, or not all of it."""
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
