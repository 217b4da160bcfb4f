"""``plugbay cdi``: specs of the Container Device Interface."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import CommandParser, Subparsers, add_aliases, add_commands
from plugbay.cli.parsing import file_of, path_of
from plugbay.cli.targets import DESCRIPTION, add_targets


def add_parser(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "cdi",
        fill=_add_commands,
        help="list, check, inject and generate CDI specs",
        description="Work with specs of the Container Device Interface: files that tell container engines what a "
        "container gets with a device that it is given by name.",
        examples=("plugbay cdi list", "plugbay cdi validate"),
    )


def _add_commands(parser: CommandParser) -> None:
    commands = add_commands(parser, dest="cdi_command")
    for add in (_add_list, _add_show, _add_validate, _add_inject, _add_generate):
        add(commands)
    add_aliases(commands, {"list": ("ls", "get")})


def run(args: argparse.Namespace) -> int:
    # Imported here: --help does not pay for it.
    from plugbay.cli import cdi_commands as commands

    match args.cdi_command:
        case "list":
            return commands.list_devices(args)
        case "show":
            return commands.show_devices(args)
        case "validate":
            return commands.validate(args)
        case "inject":
            return commands.inject_devices(args)
        case "generate":
            return commands.generate(args)
        case other:
            raise AssertionError(other)


def _add_list(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "list",
        help="list the devices that spec files define",
        description="List every device that can be injected, and the file that defines it. Bad files are named on "
        "standard error and are not a failure.",
    )
    _add_directories(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="", help="another form of output")


def _add_show(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "show",
        help="show what a container gets with devices",
        description="Show all edits that the devices stand for, with the edits of their spec files, in the order in "
        "which they are applied.",
        examples=("plugbay cdi show vendor.example/gopher=g0",),
    )
    _add_names(parser)
    _add_directories(parser)
    parser.add_argument(
        "-o", "--output", choices=("json", "yaml"), default="yaml", help="form of output (default: %(default)s)"
    )


def _add_validate(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "validate",
        help="tell whether engines would use spec files",
        description="Exit with 0 if container engines would use all of the files, with 1 and the reasons if not. "
        "Without a FILE, the files in the spec directories are checked, and against each other.",
        examples=("plugbay cdi validate", "plugbay cdi validate vendor.example-gopher.yaml"),
    )
    parser.add_argument("files", nargs="*", metavar="FILE", type=file_of, help="a spec; - for standard input")
    _add_directories(parser)


def _add_inject(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "inject",
        help="apply devices to an OCI runtime spec",
        description="Print the OCI runtime spec (config.json) with the devices applied, as an engine would.",
        examples=("plugbay cdi inject config.json vendor.example/gopher=g0 vendor.example/gopher=g1",),
    )
    parser.add_argument("file", metavar="FILE", type=file_of, help="the OCI runtime spec; - for standard input")
    _add_names(parser)
    _add_directories(parser)


def _add_generate(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "generate",
        takes_more="targets",
        help="make a spec of the devices that a plugin finds",
        description=f"Set a plugin up, look for its devices once, and print a spec that gives what they give. A device "
        f"that CDI cannot express is left out, and named on standard error; then the exit code is 1. {DESCRIPTION}",
        examples=(
            "plugbay cdi generate --kind vendor.example/gopher gophers.py",
            "plugbay cdi generate --kind vendor.example/gopher gophers.py --write /etc/cdi",
        ),
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
