"""Parts that every ``get`` has in common: choosing objects, printing them and their changes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from plugbay.cli.kubectl.client import WatchEvent
from plugbay.cli.kubectl.forms import Form, list_of, object_text
from plugbay.cli.kubectl.rows import View
from plugbay.cli.printing.output import show, show_error, show_note, show_page
from plugbay.cli.printing.table import Columns
from plugbay.documents import Json
from plugbay.errors import RequestRefused
from plugbay.printers import v1


def named(names: Iterable[str], get: Callable[[str], Json]) -> tuple[list[Json], bool]:
    """The objects with these names, and whether the node refused one: its reason has been printed then."""
    found: list[Json] = []
    failed = False
    for name in names:
        try:
            found.append(get(name))
        except RequestRefused as error:
            show_error(error)
            failed = True
    return found, failed


def show_nothing_found(namespace: str | None) -> None:
    """Print on standard error that a list is empty."""
    show_note(f"No resources found{f' in {namespace} namespace' if namespace is not None else ''}.")


class ObjectPrinter:
    """Prints objects, then their changes in the same form.

    Args:
        view: how to show objects in a table; asked anew whenever there are some to show.
        text: shows an object, or a list of them, in a form that is not a table; by default `object_text` does.
    """

    def __init__(self, view: Callable[[], View], form: Form, *, text: Callable[[Json], str] | None = None) -> None:
        self._view = view
        self._form = form
        self._text = text or (lambda value: object_text(value, form))
        self._columns: Columns | None = None
        self._shown: dict[str, str] = {}
        self._has_shown = False

    def show_one(self, item: Json) -> None:
        """Print an object that was asked for by its name: without a list around it."""
        self._note([item])
        if self._form.is_table:
            self._show_rows([item])
        else:
            self._show_object(item)

    def show_list(self, items: Sequence[Json]) -> None:
        self._note(items)
        if not self._form.is_table:
            self._show_object(list_of(items))
        elif items:
            self._show_rows(items)

    def show_each(self, items: Sequence[Json]) -> None:
        """Print objects as their changes will be printed: without a list around them."""
        if self._form.is_table:
            self.show_list(items)
            return
        for item in items:
            self.show_one(item)

    def show_change(self, change: WatchEvent) -> None:
        """Print one change. A watch starts with the present objects; those that were printed already are left out."""
        known = self._shown.get(_identity(change.object))
        if change.type == "ADDED" and known == _version(change.object):
            return
        self.show_one(change.object)

    def _note(self, items: Iterable[Json]) -> None:
        self._shown.update((_identity(item), _version(item)) for item in items)

    def _show_object(self, value: Json) -> None:
        if self._form is Form.YAML and self._has_shown:
            show("---\n")
        self._has_shown = True
        show(self._text(value))

    def _show_rows(self, items: Iterable[Json]) -> None:
        view, now = self._view(), datetime.now(UTC)
        rows = [row for item in items for row in view.rows(item, now)]
        if self._columns is None:
            self._columns = Columns(view.header)
            show_page(self._columns.table(rows))
        else:
            show_page(self._columns.rows(rows))


def show_found(printer: ObjectPrinter, args: argparse.Namespace, items: Sequence[Json]) -> None:
    """Print what a command with NAME arguments found."""
    if len(args.names) == 1:
        for item in items:
            printer.show_one(item)
    elif items or not args.names:
        printer.show_list(items)


def _identity(item: Json) -> str:
    return v1.uid(item) or f"{v1.namespace(item)}/{v1.name(item)}"


def _version(item: Json) -> str:
    """The version of an object, which changes with it; events and nodes have none here."""
    return v1.text(item, "metadata", "resourceVersion") or repr(item)
