"""``plugbay serve --dry-run``: show what would be served, or how it differs from another config file."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.targets.loading import load_targets, plugins_of_all_nodes

if TYPE_CHECKING:
    from plugbay.sdk.process.sources import Member

_SAME: Final = 0
_DIFFERS: Final = 1
_FAILED: Final = 2


def run(args: argparse.Namespace) -> int:
    """Print the dry run; returns 0, 1 if the files differ, and 2 if a file is wrong, as ``diff`` does."""
    from plugbay.cli.printing.output import show_error
    from plugbay.errors import PlugbayError

    try:
        return _show_resources(args) if args.against is None else _show_difference(args)
    except PlugbayError as error:
        show_error(error)
        return _FAILED


def _show_resources(args: argparse.Namespace) -> int:
    import asyncio

    from plugbay.cli.printing.output import show
    from plugbay.cli.printing.table import Columns

    rows = asyncio.run(_rows(load_targets(args)))
    show(Columns(("RESOURCE", "TARGET")).table(rows))
    return _SAME


async def _rows(targets: Sequence[tuple[str, Sequence[Member]]]) -> list[tuple[str, str]]:
    from plugbay.errors import DuplicateResource

    rows = [(resource, target) for target, members in targets async for resource, target in _of(target, members)]
    names = [resource for resource, _ in rows]
    if len(set(names)) < len(names):
        raise DuplicateResource(max(names, key=names.count))
    return rows


async def _of(target: str, members: Sequence[Member]) -> AsyncIterator[tuple[str, str]]:
    """The resources of one target, and for a config file the targets that it names."""
    from plugbay.cli.printing.output import show_note
    from plugbay.sdk.inspection.survey import plugins_now
    from plugbay.sdk.process.config_file import ConfigFile

    for member in members:
        if isinstance(member, ConfigFile):
            for note in await member.load_as_known():
                show_note(note)
            for entry, of_entry in member.entries:
                async for row in _of(entry.target, of_entry):
                    yield row
        else:
            for plugin in await plugins_now([member]):
                yield plugin.resource_name, target


def _show_difference(args: argparse.Namespace) -> int:
    from plugbay.cli.printing.output import show
    from plugbay.errors import UsageError
    from plugbay.sdk.process.config_file import read_text
    from plugbay.sdk.process.node_configs import differences, parse_configs

    if args.config is None or args.targets:
        raise UsageError("--against compares config files: it wants --config FILE, and no TARGET")
    before, after = (parse_configs(read_text(path), source=str(path)) for path in (args.against, args.config))
    plugins_of_all_nodes(args.config)  # which is told if they cannot be made
    lines = differences(before, after)
    show("".join(f"{line}\n" for line in lines))
    return _DIFFERS if lines else _SAME
