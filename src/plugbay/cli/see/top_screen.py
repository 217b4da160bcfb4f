"""The screen of ``plugbay top``. Only this module imports textual."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from plugbay.cli.see.top_rows import TopOrder, summary, top_rows
from plugbay.cli.see.who_rows import HEADER
from plugbay.observe.view import ObservedNode

_HEALTH: Final = HEADER.index("HEALTH")


class TopScreen(App[None]):
    """A live table of devices and their holders.

    Args:
        views: gives the views to show, without end.
        now: the clock, for ages.
    """

    CSS = "#search { display: none; } #search.shown { display: block; } #summary, #more { padding: 0 1; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "search", "Search"),
        Binding("escape", "clear", "Show all"),
        Binding("s", "sort", "Sort by next column"),
        Binding("r", "reverse", "Reverse"),
        Binding("u", "unhealthy", "Only unhealthy"),
    ]

    def __init__(self, views: Callable[[], AsyncIterator[ObservedNode]], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._views = views
        self._now = now
        self._view: ObservedNode | None = None
        self.order = TopOrder()

    def compose(self) -> ComposeResult:
        yield Static("reading the node ...", id="summary", markup=False)
        yield Input(placeholder="words that have to be in a row", id="search")
        yield DataTable(id="devices", cursor_type="row", zebra_stripes=True)
        yield Static("", id="more", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.title = "plugbay top"
        self._table.focus()
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        async for view in self._views():
            self._view = view
            self._show()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#devices", DataTable)

    def _show(self) -> None:
        """Fill the table anew; the cursor stays in its line."""
        if self._view is None:
            return
        rows, more = top_rows(self._view, self.order, self._now())
        table, line = self._table, self._table.cursor_row
        table.clear(columns=True)
        for number, name in enumerate(HEADER):
            mark = ("▼" if self.order.is_reversed else "▲") if number == self.order.column else " "
            table.add_column(f"{name} {mark}", key=str(number))
        for row in rows:
            table.add_row(*(_painted(number, text) for number, text in enumerate(row)))
        table.move_cursor(row=min(line, max(0, len(rows) - 1)))
        self.query_one("#summary", Static).update(summary(self._view))
        self.query_one("#more", Static).update(f"and {more} more: / searches" if more else "")

    def _reorder(self, order: TopOrder) -> None:
        self.order = order
        self._show()

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.add_class("shown")
        search.focus()

    def action_clear(self) -> None:
        """Leave the search, and show all."""
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("shown")
        self._table.focus()
        self._reorder(TopOrder(column=self.order.column, is_reversed=self.order.is_reversed))

    def action_sort(self) -> None:
        self._reorder(self.order.by((self.order.column + 1) % len(HEADER)))

    def action_reverse(self) -> None:
        self._reorder(self.order.by(self.order.column))

    def action_unhealthy(self) -> None:
        self._reorder(replace(self.order, only_unhealthy=not self.order.only_unhealthy))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._reorder(replace(self.order, search=event.value))

    def on_input_submitted(self) -> None:
        self._table.focus()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        self._reorder(self.order.by(event.column_index))


def _painted(column: int, text: str) -> Text:
    """A cell as it is, without markup; a health that wants a look in colour."""
    style = "" if column != _HEALTH or text == "Healthy" else "bold red" if text.startswith("Un") else "yellow"
    return Text(text, style=style)
