"""Columns and fields of plain text, aligned as kubectl aligns them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from plugbay.errors.wording import printable

_GET_GAP: Final = 3
_DESCRIBE_GAP: Final = 2
NONE: Final = "<none>"


class Columns:
    """A table that may get further rows later; columns only ever grow, so that earlier rows still line up."""

    def __init__(self, header: Sequence[str], *, gap: int = _GET_GAP) -> None:
        self._header = header
        self._gap = gap
        self._widths = [0] * len(header)

    def table(self, rows: Iterable[Sequence[str]]) -> str:
        """The header and ``rows``, each with its line end."""
        return self.rows([self._header, *rows])

    def rows(self, rows: Iterable[Sequence[str]]) -> str:
        cleaned = [[cell(each) for each in row] for row in rows]
        for row in cleaned:
            self._widths = [max(width, len(each)) for width, each in zip(self._widths, row, strict=True)]
        return "".join(self._line(row) for row in cleaned)

    def _line(self, row: Sequence[str]) -> str:
        *padded, last = row
        cells = [each.ljust(width + self._gap) for each, width in zip(padded, self._widths, strict=False)]
        return "".join([*cells, last]).rstrip() + "\n"


def cell(text: str) -> str:
    """``text`` on one line: further lines are cut away, and a mark shows that."""
    if text.isprintable():
        return text
    first, *rest = text.splitlines() or [""]
    return printable(first).replace("\t", " ") + ("..." if rest else "")


class Description:
    """The pages of ``describe``: indented fields; the values of adjacent fields line up."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str | None]] = []

    def field(self, label: str, value: str, *, depth: int = 0) -> None:
        """``label:  value``; the further lines of a value stand under the first one."""
        first, *rest = printable(value).splitlines() or [""]
        self._lines.append((f"{'  ' * depth}{label}:", first))
        self._lines += [("", line) for line in rest]

    def fields(self, label: str, pairs: Iterable[tuple[str, str]], *, depth: int = 0) -> None:
        """A heading with ``pairs`` as fields under it, or ``<none>``."""
        listed = list(pairs)
        if not listed:
            self.field(label, NONE, depth=depth)
            return
        self.line(f"{label}:", depth=depth)
        for name, value in listed:
            self.field(name, value, depth=depth + 1)

    def items(self, label: str, items: Iterable[str], *, depth: int = 0) -> None:
        """A heading with ``items`` on lines under it, or ``<none>``."""
        listed = list(items)
        if not listed:
            self.field(label, NONE, depth=depth)
            return
        self.line(f"{label}:", depth=depth)
        for item in listed:
            for line in item.splitlines():
                self.line(line, depth=depth + 1)

    def table(self, label: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A heading with a table under it, or ``<none>``."""
        listed = list(rows)
        if not listed:
            self.field(label, NONE)
            return
        self.line(f"{label}:")
        ruled = [["-" * len(each) for each in header], *listed]
        for line in Columns(header, gap=_DESCRIBE_GAP).table(ruled).splitlines():
            self.line(line, depth=1)

    def line(self, text: str, *, depth: int = 0) -> None:
        self._lines.append((f"{'  ' * depth}{printable(text)}", None))

    def __str__(self) -> str:
        shown: list[str] = []
        block: list[tuple[str, str]] = []
        for label, value in [*self._lines, ("", None)]:
            if value is not None:
                block.append((label, value))
                continue
            width = max((len(each) for each, _ in block), default=0) + _DESCRIBE_GAP
            shown += [f"{each.ljust(width)}{value}".rstrip() for each, value in block] + [label]
            block.clear()
        return "\n".join(shown)
