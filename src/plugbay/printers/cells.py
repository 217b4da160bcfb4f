"""Cells of tables made of a few common forms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from plugbay.documents import Json
from plugbay.printers import v1
from plugbay.printers.tables import AGE, NAME, NONE, UNKNOWN, Cell, Column, TableColumns, age_cell

CellOf = Callable[[Json], Cell]
UNSET: Final = "<unset>"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def columns(*described: tuple[Column, CellOf], has_age: bool = True) -> TableColumns:
    """The columns of a kind: its name, what is described, and its age before the columns of wide tables."""
    narrow = [each for each in described if not each[0].is_wide]
    wide = [each for each in described if each[0].is_wide]

    def cells(value: Json, now: datetime) -> Sequence[Cell]:
        age = (age_cell(value, now),) if has_age else ()
        return (v1.name(value), *(cell(value) for _, cell in narrow), *age, *(cell(value) for _, cell in wide))

    shown = [column for column, _ in narrow], [column for column, _ in wide]
    return TableColumns((NAME, *shown[0], *((AGE,) if has_age else ()), *shown[1]), cells)


def text(*path: str, missing: str = "") -> CellOf:
    """The text, number or flag at a place."""

    def cell(value: Json) -> Cell:
        found = v1.at(value, *path)
        if isinstance(found, bool):
            return str(found).lower()
        return found if isinstance(found, str | int) and found != "" else missing

    return cell


def joined(*path: str, name: str = "", missing: str = NONE) -> CellOf:
    """The texts of a list with commas between them; ``name`` is the field of its items that is shown."""

    def cell(value: Json) -> Cell:
        found = [v1.text(each, name) for each in v1.objects(value, *path)] if name else v1.texts(value, *path)
        return ",".join(each for each in found if each) or missing

    return cell


def how_many(*path: str) -> CellOf:
    def cell(value: Json) -> Cell:
        found = v1.at(value, *path)
        return len(found) if isinstance(found, list | dict) else 0

    return cell


def access_modes(*path: str) -> CellOf:
    """``RWO,ROX`` of the access modes of a volume."""
    return lambda value: ",".join(_MODES.get(each, each) for each in v1.texts(value, *path))


def selector(*path: str) -> CellOf:
    """A label selector, or the labels of a plain one, as ``-l`` takes them."""

    def cell(value: Json) -> Cell:
        found = v1.mapping(value, *path)
        labels = found.get("matchLabels", {} if "matchExpressions" in found else found)
        terms = [f"{name}={each}" for name, each in sorted(labels.items())] if isinstance(labels, dict) else []
        for each in v1.objects(found, "matchExpressions"):
            key, values = v1.text(each, "key"), ",".join(v1.texts(each, "values"))
            match v1.text(each, "operator"):
                case "Exists":
                    terms.append(key)
                case "DoesNotExist":
                    terms.append(f"!{key}")
                case operator:
                    terms.append(f"{key} {operator.lower()} ({values})")
        return ",".join(terms) or NONE

    return cell


def created(value: Json) -> Cell:
    return v1.text(value, "metadata", "creationTimestamp") or UNKNOWN
