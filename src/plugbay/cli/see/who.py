"""``plugbay who``: which pod holds which device, on any kubelet."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Final, TypeAlias

from plugbay.cli.arguments.options import add_all_namespaces, add_output_or_template, at_least, namespace_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.kubectl.forms import Form, chosen_form, object_text
from plugbay.cli.printing.output import show, show_error, show_note, show_page
from plugbay.cli.printing.table import Columns, cell
from plugbay.cli.see.choosing import WhoChoice
from plugbay.cli.see.options import add_place_options, chosen_places, chosen_reading
from plugbay.cli.see.who_rows import (
    HEADER,
    WIDE_HEADER,
    DeviceUse,
    escaped,
    node_object,
    row,
    use_object,
    uses_of,
    wide_row,
)
from plugbay.documents import Json
from plugbay.errors import PathUnusable
from plugbay.errors.wording import printable
from plugbay.observe.following import followed
from plugbay.observe.places import NodePlaces
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.view import NEEDED, DeviceView, ObservedNode
from plugbay.ops.garbage import nothing_to_collect

_FAILED: Final = 1
_PARTIAL: Final = 3
_Read: TypeAlias = Callable[[], Coroutine[None, None, ObservedNode]]


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show which pod holds which device, since when, and whether the device is well: on any node, with any "
        "kubelet and anybody's plugins, without an API server. It joins the kubelet's checkpoint, its PodResources "
        "service, the directories of pods and, for plugins and nodes of plugbay, their status. Run it as root. Exits "
        "with 1 if there is no kubelet or nothing of that name, with 3 if the answer is partial: notes say what is "
        "missing. WARNING: as `plugbay podresources`, it asks a stock kubelet for a list once, which should not be "
        "done while a plugin hangs in Allocate; `--ask harmless` does without.",
        examples=(
            "plugbay who",
            "plugbay who nvidia.com/gpu --unhealthy",
            "plugbay who pod/web -n default -o wide",
            "plugbay who /dev/nvidia0",
            "plugbay who --watch",
        ),
        run=show_holders,
        takes_more="what",
    )
    parser.add_argument(
        "what", nargs="*", metavar="RESOURCE|pod/NAME|DEVICE", help="only these; a device by its ID or host path"
    )
    parser.add_argument("--resource", action="append", default=[], metavar="NAME", help="only this resource")
    parser.add_argument("--pod", action="append", default=[], metavar="NAME", help="only this pod, by name or UID")
    parser.add_argument("--container", action="append", default=[], metavar="NAME", help="only containers of this name")
    parser.add_argument(
        "-n", "--namespace", metavar="NS", type=namespace_of, help="only pods of this namespace (default: all)"
    )
    add_all_namespaces(parser)
    parser.add_argument("--numa", type=at_least(0), metavar="NODE", help="only devices on this NUMA node")
    parser.add_argument("--unhealthy", action="store_true", help="only devices that are not healthy")
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change, as the kernel tells of it")
    add_output_or_template(parser)
    add_place_options(parser, by_default="list, and harmless with --watch")


def show_holders(args: argparse.Namespace) -> int:
    choice = WhoChoice(
        words=tuple(args.what),
        resources=frozenset(args.resource),
        pods=frozenset(args.pod),
        namespace=None if args.all_namespaces else args.namespace,
        containers=frozenset(args.container),
        numa=args.numa,
        only_unhealthy=args.unhealthy,
    )
    places = chosen_places(args)
    # A stock kubelet is asked for a list once, and not at every change.
    read = chosen_reading(args, places, AllowedCalls.HARMLESS if args.watch else AllowedCalls.LIST, pod=choice.only_pod)
    printer = _Printer(choice, args.output)
    if args.watch:
        return asyncio.run(_watch(printer, read, places))
    with nothing_to_collect():
        return asyncio.run(_look(printer, read))


async def _look(printer: _Printer, read: _Read) -> int:
    return printer.show_all(await read())


async def _watch(printer: _Printer, read: _Read, places: NodePlaces) -> int:
    views = followed(read, places)
    printer.show_first(await anext(views))
    async for view in views:
        printer.show_changes(view)
    return 0


class _Printer:
    """Prints what is wanted of a node, and later what has changed of it."""

    def __init__(self, choice: WhoChoice, output: str) -> None:
        self._choice = choice
        self._form, self._text = chosen_form(output)
        self._is_wide = self._form is Form.WIDE
        self._columns = Columns(WIDE_HEADER if self._is_wide else HEADER)
        self._has_header = False
        self._shown: dict[tuple[str, str, str], DeviceUse] = {}
        self._noted: set[str] = set()

    def show_all(self, view: ObservedNode) -> int:
        """Print everything that is wanted; returns the exit code."""
        _require_something(view)
        uses = list(uses_of(view))
        wanted = self._choice.uses(uses)
        unknown = self._choice.unknown(view, uses)
        if self._form.is_table:
            self._show_rows(wanted)
            if not wanted and not unknown:
                show_note("No devices found.")
            self._note_disagreements(wanted)
        elif self._form is Form.NAME:
            show("".join(dict.fromkeys(map(_name, wanted))))
        else:
            show(self._object(node_object(view, wanted)))
        self._note_problems(view)
        for word in unknown:
            show_error(
                f"nothing on this node is called {word}: no resource, no device, and no pod or container that holds one"
            )
        return _FAILED if unknown else _PARTIAL if view.is_partial else 0

    def show_first(self, view: ObservedNode) -> None:
        _require_something(view)
        self.show_changes(view)

    def show_changes(self, view: ObservedNode) -> None:
        """Print what differs from the view before, devices that were given back as such."""
        uses = {use.key: use for use in self._choice.uses(uses_of(view))}
        changed = [use for key, use in uses.items() if not _is_alike(self._shown.get(key), use)]
        ended = [use for key, use in self._shown.items() if key not in uses and use.holder is not None]
        devices = {(use.resource.name, use.device.id) for use in changed}
        changed += [
            DeviceUse(use.resource, _current(view, use), None)
            for use in ended
            if (use.resource.name, use.device.id) not in devices
        ]
        self._shown = uses
        if self._form.is_table:
            self._show_rows(changed)
        elif self._form is Form.NAME:
            show("".join(map(_name, changed)))
        else:
            for use in changed:
                separator = "---\n" if self._form is Form.YAML and self._has_header else ""
                self._has_header = True
                show(separator + self._object(use_object(use)))
        self._note_problems(view)

    def _object(self, value: Json) -> str:
        """An object in the form that is wanted, without characters that a terminal would obey."""
        if self._text:
            return printable(self._text(value))
        return escaped(object_text(value, self._form))

    def _show_rows(self, uses: list[DeviceUse]) -> None:
        now = datetime.now(UTC)
        rows = [wide_row(use, now) if self._is_wide else row(use, now) for use in uses]
        if rows:
            show_page(self._columns.rows(rows) if self._has_header else self._columns.table(rows))
            self._has_header = True

    def _note_disagreements(self, uses: list[DeviceUse]) -> None:
        for use in uses:
            for sentence in use.device.disagreements:
                self._note(f"note: {use.resource.name} {use.device.id}: {sentence}")

    def _note_problems(self, view: ObservedNode) -> None:
        """Say each problem once, and again when it comes back."""
        sentences = {f"note: {problem.sentence}" for problem in view.problems}
        for sentence in sorted(sentences - self._noted):
            show_note(sentence)
        self._noted = sentences

    def _note(self, sentence: str) -> None:
        show_note(sentence)


def _require_something(view: ObservedNode) -> None:
    """End with one sentence if not even a file tells anything.

    Raises:
        PathUnusable: likewise.
    """
    needed = [problem.sentence for problem in view.problems if problem.witness in NEEDED]
    has_file = view.checkpoint is not None and view.checkpoint.is_valid
    if needed and not view.resources and not has_file:
        raise PathUnusable(view.root, needed[0])


def _name(use: DeviceUse) -> str:
    return f"{cell(use.resource.name)}={cell(use.device.id)}\n"


def _is_alike(before: DeviceUse | None, now: DeviceUse) -> bool:
    return before is not None and (before.device, before.holder) == (now.device, now.holder)


def _current(view: ObservedNode, use: DeviceUse) -> DeviceView:
    """The device as it is now; as it was if it is gone."""
    for resource in view.resources:
        if resource.name == use.resource.name:
            for device in resource.devices:
                if device.id == use.device.id:
                    return device
    return use.device
