"""``plugbay checkpoint``: look into the file that a kubelet's device manager wrote."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.inputs import STDIN, input_name, read_input
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.printing.output import show, show_error, show_note
from plugbay.cli.see.kubelet.checkpoint_pages import checkpoint_object, checkpoint_page, difference
from plugbay.errors import CorruptCheckpoint, PathUnusable, PlugbayError, UsageError
from plugbay.errors.wording import printable
from plugbay.kernel.files import write_durably
from plugbay.kubelet.checkpoint import encode, parse
from plugbay.kubelet.checkpoint_data import Checkpoint, CheckpointData, checksum
from plugbay.kubelet.old_checkpoint import old_checksum, parse_old

_DIFFERENT: Final = 1
_TROUBLE: Final = 2
"""The exit code of diff(1) when it cannot compare."""


def declare_show(parser: CommandParser) -> None:
    parser.describe(
        "Show a checkpoint: its entries, the registered devices, and the decoded Allocate responses. "
        "A wrong checksum is shown and is not a failure; see verify.",
        run=show_checkpoint,
    )
    _add_file(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), default="", help="another form of output")


def declare_verify(parser: CommandParser) -> None:
    parser.describe(
        "Exit with 0 if a kubelet would load the file, with 1 and the reason if not.",
        run=verify_checkpoint,
    )
    _add_file(parser)


def declare_convert(parser: CommandParser) -> None:
    parser.describe(
        "Write the checkpoint in the format of kubelet 1.20 and newer, sorted and with its checksum. Reads "
        "the format of 1.19 and older too; it has no NUMA nodes, so all devices come to node 0.",
        run=convert_checkpoint,
    )
    _add_file(parser)
    parser.add_argument("--to", metavar="FILE2", help="replace this file (default: standard output)")
    parser.add_argument("--ignore-checksum", action="store_true", help="convert a file whose checksum is wrong")


def declare_diff(parser: CommandParser) -> None:
    parser.describe(
        "Compare what two checkpoints say, in whatever order they say it. Exits with 0 if it is the same, "
        "with 1 if not, with 2 if a file cannot be read.",
        run=diff_checkpoints,
    )
    _add_file(parser)
    parser.add_argument("other", metavar="FILE2", help="what to compare with; - for standard input")


def _add_file(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the checkpoint; - for standard input")


def show_checkpoint(args: argparse.Namespace) -> int:
    checkpoint = _parse(args.file)
    if checkpoint.data == CheckpointData() and not checkpoint.checksum:
        raise CorruptCheckpoint(
            input_name(args.file), "it is JSON, but not a checkpoint: it has neither Data nor Checksum"
        )
    if args.output:
        show(object_text(checkpoint_object(checkpoint), Form(args.output)))
    else:
        show(checkpoint_page(checkpoint))
    return 0


def verify_checkpoint(args: argparse.Namespace) -> int:
    checkpoint = _parse(args.file)
    data = checkpoint.data
    _check(checkpoint, checksum(data), args.file)
    entries, registered = len(data.pod_device_entries or ()), len(data.registered_devices or ())
    show(f"{input_name(args.file)}: valid, checksum {checkpoint.checksum}, entries {entries}, resources {registered}\n")
    return 0


def convert_checkpoint(args: argparse.Namespace) -> int:
    content = read_input(args.file)
    try:
        checkpoint = parse(content, source=input_name(args.file))
        computed = checksum(checkpoint.data)
    except CorruptCheckpoint as error:
        try:
            checkpoint = parse_old(content, source=input_name(args.file))
        except CorruptCheckpoint:
            raise error from None  # what is wrong with it as a file of today says more
        computed = old_checksum(checkpoint.data)
    if not args.ignore_checksum:
        _check(checkpoint, computed, args.file)
    converted = encode(_sorted(checkpoint.data))
    if args.to is None:
        show(converted.decode())
        return 0
    try:
        write_durably(Path(args.to), converted)
    except OSError as error:
        raise PathUnusable(args.to, f"cannot be written: {error.strerror}") from error
    return 0


def diff_checkpoints(args: argparse.Namespace) -> int:
    try:
        if args.file == args.other == STDIN:
            raise UsageError("only one of the two checkpoints can come from standard input")
        lines = list(difference(_compared(args.file), _compared(args.other)))
    except PlugbayError as error:
        show_error(error)
        return _TROUBLE
    show("".join(f"{printable(line)}\n" for line in lines))
    return _DIFFERENT if lines else 0


def _compared(file: str) -> CheckpointData:
    checkpoint = _parse(file)
    computed = checksum(checkpoint.data)
    if checkpoint.checksum != computed:
        show_note(f"{input_name(file)}: checksum is {checkpoint.checksum}, the content's is {computed}")
    return checkpoint.data


def _parse(file: str) -> Checkpoint:
    content = read_input(file)
    try:
        return parse(content, source=input_name(file))
    except CorruptCheckpoint as error:
        try:
            parse_old(content, source=input_name(file))
        except CorruptCheckpoint:
            raise error from None
        problem = "it is in the format of kubelet 1.19 and older, which `plugbay checkpoint convert` reads"
        raise CorruptCheckpoint(input_name(file), problem) from None


def _check(checkpoint: Checkpoint, computed: int, file: str) -> None:
    if checkpoint.checksum != computed:
        problem = f"checksum is {checkpoint.checksum}, the content's is {computed}"
        raise CorruptCheckpoint(input_name(file), problem)


def _sorted(data: CheckpointData) -> CheckpointData:
    """Entries, devices and resources in the order in which our manager writes them."""
    entries = sorted(
        data.pod_device_entries or (), key=lambda entry: (entry.pod_uid, entry.container_name, entry.resource_name)
    )
    ordered = [
        replace(
            entry,
            device_ids=None
            if entry.device_ids is None
            else {node: _sorted_list(ids) for node, ids in entry.device_ids.items()},
        )
        for entry in entries
    ]
    registered = data.registered_devices
    return CheckpointData(
        ordered or None,
        None if registered is None else {name: _sorted_list(ids) for name, ids in registered.items()},
    )


def _sorted_list(ids: Sequence[str] | None) -> Sequence[str] | None:
    return None if ids is None else sorted(ids)
