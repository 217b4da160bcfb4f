"""Options that the ``plugbay pod`` commands share."""

from __future__ import annotations

from plugbay.cli.arguments.options import file_of, namespace_of
from plugbay.cli.arguments.parser import CommandParser


def add_filename(parser: CommandParser, *, required: bool = False) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        required=required,
        metavar="FILE",
        type=file_of,
        help="manifest with pods, a directory with manifests (*.yaml, *.yml, *.json), or - for standard input; "
        "10 MiB each at most; may be repeated",
    )


def add_lenient(parser: CommandParser) -> None:
    parser.add_argument(
        "--lenient", action="store_true", help="warn about fields that are unknown or unsupported, and go on"
    )


def add_manifest_namespace(parser: CommandParser) -> None:
    parser.add_argument(
        "-n", "--namespace", metavar="NS", type=namespace_of, help="namespace (default: the manifest's, else default)"
    )
