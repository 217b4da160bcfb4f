"""A recording of a node of ours that runs: of all its plugins and pods, without a restart."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import RECORDING_PATH, NodeClient
from plugbay.cli.printing.output import show_note
from plugbay.errors import NodeUnreachable, PathUnusable, UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.http_client import TimeIsUp
from plugbay.traffic.file import RecordingFile
from plugbay.traffic.file_format import LOST


def record_node(args: argparse.Namespace) -> int:
    """Record the node at its root until SIGTERM, Ctrl-C, ``--for``, or the end of the node.

    Raises:
        NodeUnreachable, PathUnusable: none runs there.
        UsageError: the options are for a plugin's program.
    """
    _refuse_of_program(args)
    client = NodeClient(_root(args))
    query = {"unmasked": "true"} if args.unmasked else {}
    try:
        with (
            client.read_lines(RECORDING_PATH, query, for_s=args.for_s) as lines,
            RecordingFile(args.output, None, most_bytes=args.max_size) as file,
        ):
            show_note(f"recording the node to {args.output}; Ctrl-C ends the recording, and not the node")
            try:
                keep_lines(lines, file)
            finally:
                show_note(f"{max(file.count - 1, 0)} records are in {args.output}")
    except (KeyboardInterrupt, TimeIsUp):
        pass
    return 0


def keep_lines(lines: Iterable[bytes], file: RecordingFile) -> None:
    """Write lines until there are no more, or the file is full, and say why it ends; the first line is the header.

    Raises:
        PathUnusable: the file cannot be written.
        NodeUnreachable: the node is gone before the first line.
    """
    try:
        for encoded in lines:
            line = encoded.decode(errors="replace") + "\n"
            try:
                file.keep(line)
            except OSError as error:
                raise PathUnusable(str(file.path), f"cannot be written: {error.strerror}") from error
            if file.is_full:
                show_note(f"{file.path} has reached --max-size; the recording ends")
                return
            if line == LOST:
                show_note("the recording ends: it could not be written as fast as the node had records")
                return
    except NodeUnreachable:
        if not file.count:
            raise
    show_note("the node ended the recording")


def _root(args: argparse.Namespace) -> Path:
    if args.kubelet is not None:
        raise UsageError(
            "the sockets of a kubelet that is not ours cannot be listened to; say which plugin to run behind a relay: "
            f"plugbay record -o {args.output} --kubelet {args.kubelet} -- ./my-plugin"
        )
    root = chosen_root(args)
    client = NodeClient(root)
    if not client.socket.exists() and KubeletPaths(root).registration_socket.exists():
        raise PathUnusable(
            str(root),
            "the kubelet here is not a node of plugbay, and its sockets cannot be listened to; run the plugin behind a "
            f"relay: plugbay record -o {args.output} --kubelet {root} -- ./my-plugin",
        )
    return root


def _refuse_of_program(args: argparse.Namespace) -> None:
    for option, value in (
        ("--admit", args.admit),
        ("--env", args.env),
        ("--private-root", args.private_root),
        ("--plugin-output", args.plugin_output),
    ):
        if value:
            raise UsageError(f"{option} is for a plugin's program, which comes after --")
