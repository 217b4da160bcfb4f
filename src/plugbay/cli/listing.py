"""What every ``get`` has in common: which objects, and printing them and their changes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from plugbay.cli import v1
from plugbay.cli.client import WatchEvent
from plugbay.cli.output import Form, list_of, object_text, show, show_error, show_note, show_page
from plugbay.cli.rows import View
from plugbay.cli.table import Columns
from plugbay.errors import RequestRefused


def named(names: Iterable[str], get: Callable[[str], v1.Json]) -> tuple[list[v1.Json], bool]:
    """The objects with these names, and whether one could not be had: why has been printed then."""
    found: list[v1.Json] = []
    failed = False
    for name in names:
        try:
            found.append(get(name))
        except RequestRefused as error:
            show_error(error)
            failed = True
    return found, failed


def show_nothing_found(namespace: str | None) -> None:
    """Say, where it cannot be taken for output, that a list is empty."""
    show_note(f"No resources found{f' in {namespace} namespace' if namespace is not None else ''}.")


class Listing:
    """Prints objects, then their changes in the same form.

    Args:
        view: how to show objects in a table; asked anew whenever there are some to show.
        text: how to show an object, or a list of them, in a form that is no table; by default as `object_text` has it.
    """

    def __init__(self, view: Callable[[], View], form: Form, *, text: Callable[[v1.Json], str] | None = None) -> None:
        self._view = view
        self._form = form
        self._text = text or (lambda value: object_text(value, form))
        self._columns: Columns | None = None
        self._shown: dict[str, str] = {}
        self._has_shown = False

    def show_one(self, item: v1.Json) -> None:
        """An object that was asked for by its name: no list around it."""
        self._note([item])
        if self._form.is_table:
            self._show_rows([item])
        else:
            self._show_object(item)

    def show_list(self, items: Sequence[v1.Json]) -> None:
        self._note(items)
        if not self._form.is_table:
            self._show_object(list_of(items))
        elif items:
            self._show_rows(items)

    def show_each(self, items: Sequence[v1.Json]) -> None:
        """As their changes will be shown: without a list around them."""
        if self._form.is_table:
            self.show_list(items)
            return
        for item in items:
            self.show_one(item)

    def show_change(self, change: WatchEvent) -> None:
        """One change; a watch starts with what is there, and what of it was shown already is left out."""
        known = self._shown.get(_identity(change.object))
        if change.type == "ADDED" and known == _version(change.object):
            return
        self.show_one(change.object)

    def _note(self, items: Iterable[v1.Json]) -> None:
        self._shown.update((_identity(item), _version(item)) for item in items)

    def _show_object(self, value: v1.Json) -> None:
        if self._form is Form.YAML and self._has_shown:
            show("---\n")
        self._has_shown = True
        show(self._text(value))

    def _show_rows(self, items: Iterable[v1.Json]) -> None:
        view, now = self._view(), datetime.now(UTC)
        rows = [row for item in items for row in view.rows(item, now)]
        if self._columns is None:
            self._columns = Columns(view.header)
            show_page(self._columns.table(rows))
        else:
            show_page(self._columns.rows(rows))


def show_found(listing: Listing, args: argparse.Namespace, items: Sequence[v1.Json]) -> None:
    """Print what a command with NAME arguments found."""
    if len(args.names) == 1:
        for item in items:
            listing.show_one(item)
    elif items or not args.names:
        listing.show_list(items)


def _identity(item: v1.Json) -> str:
    return v1.uid(item) or f"{v1.namespace(item)}/{v1.name(item)}"


def _version(item: v1.Json) -> str:
    """Changes whenever the object does; events and nodes have no version here."""
    return v1.text(item, "metadata", "resourceVersion") or repr(item)
