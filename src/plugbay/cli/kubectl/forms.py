"""Objects in the forms of ``-o``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from plugbay.documents import Json
from plugbay.printers import v1


class Form(Enum):
    """The forms in which objects are printed."""

    TABLE = ""
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"
    JSONPATH = "jsonpath"

    @property
    def is_table(self) -> bool:
        return self in (Form.TABLE, Form.WIDE)


def object_text(value: Json, form: Form) -> str:
    """One object, or a list of them, in a form that is not a table; keys sorted, as kubectl has them."""
    match form:
        case Form.JSON:
            import json

            return json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False) + "\n"
        case Form.YAML:
            # Imported here: PyYAML costs as much as all the rest of a command.
            from plugbay.documents.texts import to_yaml

            return to_yaml(_sorted(value))
        case Form.NAME:
            items = v1.objects(value, "items") if "items" in value else [value]
            return "".join(f"{_kind(item)}/{v1.name(item)}\n" for item in items)
        case _:
            raise ValueError(f"{form} is a table")


def chosen_form(output: str) -> tuple[Form, Callable[[Json], str] | None]:
    """The form that ``-o`` chooses, and the function for its template if it has one.

    Raises:
        UsageError: it is not a template.
    """
    form, _, template = output.partition("=")
    if Form(form) is not Form.JSONPATH:
        return Form(form), None
    # Imported here: only a command with a template pays for it.
    from plugbay.cli.kubectl.jsonpath_template import parse_template, render

    parsed = parse_template(template)
    return Form(form), lambda value: render(parsed, value)


def list_of(items: Iterable[Json]) -> Json:
    """Several objects as one, as kubectl makes them."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def _kind(item: Json) -> str:
    return v1.text(item, "kind").lower()


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
