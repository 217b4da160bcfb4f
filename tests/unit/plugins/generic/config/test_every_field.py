"""Every field, right and wrong: the reader and the schema agree, and each problem has its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.documents.texts import read_documents, to_yaml
from plugbay.model.field_path import FieldPath, field_text
from plugbay.plugins.generic.config.fields import FILE
from plugbay.plugins.generic.config.nodes import ConfigFormat
from plugbay.plugins.generic.config.reading import ReadOptions, ReadOutcome, examine_config
from plugbay.plugins.generic.config.records import RecordShape
from plugbay.plugins.generic.config.schema import config_schema
from plugbay.plugins.generic.config.shapes import ListShape, ValueShape
from plugbay.plugins.generic.presets.catalogue import PRESETS, preset_text
from tests.unit.plugins.generic.config.everything import EVERYTHING, everything, places, put, rename

jsonschema = pytest.importorskip("jsonschema")

WRONG: Final[tuple[object, ...]] = (
    -1, 10**30, 1.5, True, "", "\x00\x1b[2J", "/../[", "{", "é" * 300, [], {}, [[]], [None], {"x": 1},
)  # fmt: skip
ALL: Final = tuple(places(everything()))
KEYS: Final = tuple(path for path in ALL if isinstance(path[-1], str))
COUNT_AS_ABSENT: Final = ("type", "permissions")
"""Fields that may be empty texts, as in squat's plugin; the schema does not offer that."""
FREE: Final = ("env", "annotations", "attr", "property")


def validator() -> Any:
    return jsonschema.Draft202012Validator(config_schema())


def examine(value: object, *, is_lenient: bool = False) -> tuple[ReadOutcome, dict[FieldPath, int]]:
    """The outcome of reading a value as YAML, and the lines of its places."""
    text = to_yaml(value)
    (document,) = read_documents(text, source="f")
    return examine_config(text, source="f", options=ReadOptions(is_lenient=is_lenient)), dict(document.lines)


def fields_of(shape: ValueShape, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Every field of a shape and of what it holds, with the name of the record that it belongs to."""
    if isinstance(shape, ListShape):
        yield from fields_of(shape.item, seen)
    elif isinstance(shape, RecordShape) and shape.name not in seen:
        seen.add(shape.name)
        for each in shape.fields():
            yield shape.name, each.name
            yield from fields_of(each.shape, seen)


def test_the_config_with_everything_is_sound() -> None:
    found = examine_config(EVERYTHING, source="f")
    assert found.errors == ()


def test_the_config_with_everything_has_every_field_of_the_table() -> None:
    written = {path[-1] for path in KEYS}
    assert {name for _, name in fields_of(FILE, set())} <= written | {"groups"}


# --- the schema -------------------------------------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())


@pytest.mark.parametrize("text", [EVERYTHING, *map(preset_text, PRESETS)], ids=["everything", *PRESETS])
def test_what_the_reader_takes_is_valid(text: str) -> None:
    (document,) = read_documents(text, source="f")
    assert [each.message for each in validator().iter_errors(document.value)] == []


def test_the_schema_knows_every_field_and_explains_it() -> None:
    schema = config_schema()
    records = {"config": schema} | schema["$defs"]
    for record, field in fields_of(FILE, set()):
        assert records[record]["properties"][field]["description"], (record, field)


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "a"},
        {"paths": ["/dev/x"]},
        {"name": "a", "paths": []},
        {"name": "a", "paths": ["/dev/x"], "tokens": 1},
        {"name": "a", "groups": [{}]},
        {"name": "a", "tokens": 1, "replicas": 2},
        {"name": "a", "usb": [{"vendor": "10c4a"}]},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses_what_the_reader_refuses(entry: dict[str, object]) -> None:
    value = {"domain": "a.b", "devices": [entry]}
    assert not validator().is_valid(value)
    assert examine(value)[0].errors


def alone(path: FieldPath) -> tuple[FieldPath, Any]:
    """A place in a config with only the group, or the entry without groups, that the place is in."""
    value = everything()
    match path:
        case ("devices", int(device), "groups", int(group), *rest):
            entry = value["devices"][device]
            entry["groups"] = [entry["groups"][group]]
            value["devices"] = [entry]
            return ("devices", 0, "groups", 0, *rest), value
        case ("devices", int(device), *rest):
            value["devices"] = [value["devices"][device]]
            return ("devices", 0, *rest), value
    value["devices"] = value["devices"][-1:]
    return path, value


# --- wrong fields -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL, ids=field_text)
def test_a_wrong_value_is_told_with_its_line(path: FieldPath) -> None:
    schema = validator()
    path, start = alone(path)
    for wrong in WRONG:
        value = deepcopy(start)
        put(value, path, wrong)
        found, lines = examine(value)
        assert (found.config is None) == bool(found.errors)
        assert all(1 <= each.spot.line <= max(lines.values()) and each.spot.column >= 1 for each in found.errors)
        assert all(each.text.isprintable() for each in found.errors), wrong
        if not schema.is_valid(value) and not (wrong == "" and path[-1] in COUNT_AS_ABSENT):
            assert found.errors, wrong
            assert lines[path] <= max(each.spot.line for each in found.errors), wrong
            assert min(each.spot.line for each in found.errors) >= lines[path[:1]], wrong


@pytest.mark.parametrize("path", KEYS, ids=field_text)
def test_an_unknown_name_is_told_with_its_line_and_what_was_meant(path: FieldPath) -> None:
    if any(each in FREE for each in path[:-1]):
        return
    path, value = alone(path)
    name = str(path[-1])
    rename(value, path, f"{name}x")
    found, lines = examine(value)
    here = (*path[:-1], f"{name}x")
    (unknown,) = [each for each in found.errors if each.field == field_text(here)]
    assert unknown.spot.line == lines[here]
    if name != "$schema" and len(name) > 2:
        assert f'did you mean "{name}"?' in unknown.text
    lenient, _ = examine(value, is_lenient=True)
    assert field_text(here) in {each.field for each in lenient.warnings}


@pytest.mark.parametrize("path", KEYS, ids=field_text)
def test_a_field_that_stands_twice_is_told_with_both_lines(path: FieldPath) -> None:
    if any(each in FREE for each in path[:-1]):
        return
    path, value = alone(path)
    above: Any = value
    for step in path[:-1]:
        above = above[step]
    above[str(path[-1]).upper()] = above[path[-1]]
    found, lines = examine(value)
    twice = [each for each in found.errors if "stands twice" in each.text]
    assert len(twice) == 1
    assert twice[0].text.endswith(f"line {lines[path]}")
    assert twice[0].spot.line == lines[(*path[:-1], str(path[-1]).upper())]


ANY: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(ALL), ANY, st.booleans())
def test_any_value_anywhere_is_read_or_refused(path: FieldPath, value: object, is_lenient: bool) -> None:
    path, config = alone(path)
    put(config, path, value)
    found = examine_config(to_yaml(config), source="f", options=ReadOptions(is_lenient=is_lenient))
    assert (found.config is None) == bool(found.errors)


@given(st.text() | st.text(alphabet="devics:-[]{}\"'& *!|>\n\t#%@`,?0", max_size=60), st.sampled_from(ConfigFormat))
def test_any_text_is_read_or_refused(text: str, language: ConfigFormat) -> None:
    found = examine_config(text, source="f", language=language)
    assert (found.config is None) == bool(found.errors)


@given(st.integers(0, len(EVERYTHING)), st.integers(0, 12), st.text(max_size=3))
def test_any_change_of_characters_is_read_or_refused(begin: int, length: int, new: str) -> None:
    text = EVERYTHING[:begin] + new + EVERYTHING[begin + length :]
    found = examine_config(text, source="f")
    assert (found.config is None) == bool(found.errors)
    if found.config is not None:
        assert all(entry.groups for entry in found.config.entries)
