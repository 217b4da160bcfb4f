"""Printing: objects in the forms of ``-o``, tables, and errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from plugbay.cli import v1
from plugbay.cli.table import printable

PROGRAM: Final = "plugbay"


class Form(Enum):
    """How objects are printed."""

    TABLE = ""
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"
    JSONPATH = "jsonpath"

    @property
    def is_table(self) -> bool:
        return self in (Form.TABLE, Form.WIDE)


def show(text: str) -> None:
    """Print ``text``, which brings its line ends, at once: a person may be watching."""
    sys.stdout.write(text)
    sys.stdout.flush()


def discard_stdout() -> None:
    """Lose what could not be written: Python would try, and fail, once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_page(text: str) -> None:
    """`show` a table or a page for people: on a terminal in colour."""
    # Imported here: what is no table does not pay for it.
    from plugbay.cli.colour import is_wanted, painted

    show(painted(text) if is_wanted(sys.stdout, os.environ) else text)


def show_error(sentence: object) -> None:
    """Say what went wrong; a line for each line of ``sentence``."""
    for line in str(sentence).splitlines() or [""]:
        _tell(f"{PROGRAM}: error: {printable(line)}")


def show_note(sentence: object) -> None:
    """Print what is worth knowing where it cannot be taken for output."""
    _tell(printable(str(sentence)))


def _tell(line: str) -> None:
    """In one piece: others may write to the same terminal."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def object_text(value: v1.Json, form: Form) -> str:
    """One object, or a list of them, in a form that is no table; keys sorted, as kubectl has them."""
    match form:
        case Form.JSON:
            import json

            return json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False) + "\n"
        case Form.YAML:
            # Imported here: PyYAML costs as much as all the rest of a command.
            from plugbay.node.manifest import to_yaml

            return to_yaml(_sorted(value))
        case Form.NAME:
            items = v1.objects(value, "items") if "items" in value else [value]
            return "".join(f"{_kind(item)}/{v1.name(item)}\n" for item in items)
        case _:
            raise ValueError(f"{form} is a table")


def chosen_form(output: str) -> tuple[Form, Callable[[v1.Json], str] | None]:
    """What ``-o`` says, and how its template shows an object if it has one.

    Raises:
        UsageError: it is not a template.
    """
    form, _, template = output.partition("=")
    if Form(form) is not Form.JSONPATH:
        return Form(form), None
    # Imported here: only a command with a template pays for it.
    from plugbay.cli.jsonpath_template import parse_template, render

    parsed = parse_template(template)
    return Form(form), lambda value: render(parsed, value)


def list_of(items: Iterable[v1.Json]) -> v1.Json:
    """What kubectl makes of several objects."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def _kind(item: v1.Json) -> str:
    return v1.text(item, "kind").lower()


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
