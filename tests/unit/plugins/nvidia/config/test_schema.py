"""Files drawn from the schema: all are read, and one wrong value in any of them is told with its place."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.documents.texts import read_documents, to_yaml
from plugbay.errors import InvalidNvidiaConfig
from plugbay.model.field_path import FieldPath, field_text
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.configuration import Configuration
from plugbay.plugins.nvidia.config.file import parse_file
from plugbay.plugins.nvidia.config.flags import (
    CDI_HOOK_PATH,
    DEVICE_LIST_STRATEGY,
    HEALTH_CLEAN_TIME,
    PLUGIN_FLAGS,
    RESCAN_INTERVAL,
    ConfigFlag,
    FlagKind,
)
from plugbay.plugins.nvidia.config.switching import ActiveConfig, switched
from plugbay.plugins.nvidia.config.validation import validate

OF_FILE: Final = tuple(flag for flag in PLUGIN_FLAGS if flag.field)
BY_PATH: Final = {flag.field: flag for flag in OF_FILE}
ROOT: Final = parse_arguments(["--mps-root=/run/nvidia/mps"])
SPANS: Final = st.sampled_from(["1s", "1m30s", "250ms", "2h", "0.5s"])
TEXTS: Final = st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=8)
NAMES: Final = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
OTHER_KINDS: Final[dict[FlagKind, st.SearchStrategy[Any]]] = {
    FlagKind.BOOLEAN: st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS | st.just([]),
    FlagKind.TEXT: st.booleans() | st.integers() | st.just([]) | st.just({}),
    FlagKind.SPAN: st.booleans() | st.sampled_from(["soon", "5", "s", "-"]) | st.just([]) | st.just({}),
    FlagKind.TEXTS: st.booleans() | st.integers() | st.just({}) | st.just(["envvar", 3]) | st.just([[]]),
    FlagKind.INTEGERS: st.booleans() | st.just("0") | st.just(["0"]) | st.just([1]) | st.just([0, 0]) | st.just({}),
}


def fitting(flag: ConfigFlag) -> st.SearchStrategy[Any]:
    """Values that a flag takes in a file."""
    if flag in (HEALTH_CLEAN_TIME, RESCAN_INTERVAL):
        return SPANS
    if flag is CDI_HOOK_PATH:
        return TEXTS.filter(bool)  # hooks of CDI specs need a program
    match flag.kind:
        case FlagKind.BOOLEAN:
            return st.booleans()
        case FlagKind.INTEGERS:
            return st.sampled_from([[], [0]])
        case FlagKind.SPAN:
            return SPANS | st.sampled_from(["infinite", 0, 5])
        case FlagKind.TEXTS:
            return st.lists(st.sampled_from(flag.allowed), min_size=1, unique=True)
        case FlagKind.TEXT:
            return st.sampled_from(flag.allowed) if flag.allowed else TEXTS


def wrong(flag: ConfigFlag) -> st.SearchStrategy[Any]:
    """Values that a flag does not take."""
    others = OTHER_KINDS[flag.kind]
    if flag in (HEALTH_CLEAN_TIME, RESCAN_INTERVAL):
        return others | st.sampled_from(["", "soon", "0s", "-1s", "5"])
    if flag.kind is FlagKind.TEXT and flag.allowed:
        return others | TEXTS.filter(lambda text: text not in flag.allowed)
    if flag is DEVICE_LIST_STRATEGY:
        return others | st.just([]) | st.lists(NAMES.filter(lambda name: name not in flag.allowed), min_size=1)
    return others


SHARED: Final = st.fixed_dictionaries(
    {"name": NAMES, "replicas": st.integers(2, 10_000)},
    optional={"rename": NAMES, "devices": st.just("all") | st.integers(1, 8) | st.just([0, "1:0"])},
)
SHARING: Final[st.SearchStrategy[dict[str, Any]]] = st.fixed_dictionaries(
    {"resources": st.lists(SHARED, min_size=1, max_size=3)},
    optional={"renameByDefault": st.booleans(), "failRequestsGreaterThanOne": st.booleans()},
)
PATTERNS: Final = st.lists(st.fixed_dictionaries({"pattern": TEXTS, "name": NAMES}), max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Files that are configurations; some fields are left out, and the order of fields is any."""
    document: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "version": st.just("v1"),
                "sharing": st.fixed_dictionaries({}, optional={"timeSlicing": SHARING}),
                "resources": st.fixed_dictionaries({}, optional={"gpus": PATTERNS, "mig": PATTERNS}),
            },
        )
    )
    for flag in draw(st.lists(st.sampled_from(OF_FILE), unique=True)):
        put(document, flag.field, draw(fitting(flag)))
    return document


def put(document: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    holder = document
    for step in path[:-1]:
        holder = holder.setdefault(step, {})
    holder[path[-1]] = value


def read(text: str, dialect: Dialect = Dialect.EXTENDED) -> Configuration:
    return validate(parse_file(text, source="config.yaml", dialect=dialect), ROOT, has_nvml=True)


def line_of(text: str, path: FieldPath) -> int | None:
    return next(iter(read_documents(text, source=""))).lines.get(path)


@given(documents(), st.sampled_from(Dialect))
def test_every_file_of_the_schema_is_read(document: dict[str, Any], dialect: Dialect) -> None:
    read(to_yaml(document), dialect)


@settings(max_examples=20)  # for each of the fields
@pytest.mark.parametrize("flag", OF_FILE, ids=lambda flag: ".".join(flag.field))
@given(st.data())
def test_one_wrong_value_among_right_ones_is_told_with_its_place(flag: ConfigFlag, data: st.DataObject) -> None:
    document = data.draw(documents())
    put(document, flag.field, data.draw(wrong(flag), "wrong value"))
    text = to_yaml(document)
    with pytest.raises(InvalidNvidiaConfig) as raised:
        read(text)
    error, name = raised.value, field_text(flag.field)
    assert error.source == "config.yaml"
    assert error.field == name or error.field.startswith((f"{name}[", f"{name}."))
    assert error.line is not None
    assert abs(error.line - (line_of(text, flag.field) or 0)) <= 2, "the line of the field, or of an item in it"
    assert error.allowed or "wants" in error.problem, "what is allowed"


@given(documents(), st.data())
def test_a_broken_file_never_replaces_the_running_configuration(document: dict[str, Any], data: st.DataObject) -> None:
    running = ActiveConfig("good", read(to_yaml(document)))
    flag = data.draw(st.sampled_from(OF_FILE))
    put(document, flag.field, data.draw(wrong(flag)))
    after = switched(running, lambda: "broken", lambda _: read(to_yaml(document)))
    assert after.configuration is running.configuration
    assert after.name == "good"
    assert after.refusal is not None
    assert after.refusal.name == "broken"
    assert after.refusal.problem.startswith("config.yaml:")
    assert field_text(flag.field) in after.refusal.problem
    mended = switched(after, lambda: "mended", lambda _: running.configuration)
    assert (mended.refusal, mended.configuration) == (None, running.configuration)


@given(documents(), st.sampled_from(["timeSlicing", "mps"]), st.data())
def test_a_wrong_shared_resource_is_told_with_its_place(
    document: dict[str, Any], way: str, data: st.DataObject
) -> None:
    shared = data.draw(SHARING)
    place = data.draw(st.integers(0, len(shared["resources"]) - 1))
    field, value = data.draw(
        st.sampled_from(
            [
                ("name", "$invalid$"),
                ("name", 3),
                ("rename", "a b"),
                ("replicas", 1),
                ("replicas", -1),
                ("replicas", 2.5),
                ("replicas", "2"),
                ("replicas", 10_001),
                ("replicas", True),
                ("devices", "none"),
                ("devices", -2),
                ("devices", []),
                ("devices", {}),
                ("devices", [-1]),
                ("devices", ["x"]),
            ]
        )
    )
    shared["resources"][place][field] = value
    document["sharing"] = {way: shared}
    text = to_yaml(document)
    with pytest.raises(InvalidNvidiaConfig) as raised:
        read(text)
    error = raised.value
    path: FieldPath = ("sharing", way, "resources", place, field)
    assert error.field.startswith(field_text(path))
    assert error.line is not None
    assert abs(error.line - (line_of(text, path) or 0)) <= 1
