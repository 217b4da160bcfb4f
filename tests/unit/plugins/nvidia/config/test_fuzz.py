"""Every field of the file wrong in turn: the error names file, line and field, and what is allowed there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.documents.texts import to_yaml
from plugbay.errors import InvalidNvidiaConfig
from plugbay.model.field_path import FieldPath, field_text
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.config.choices import Dialect
from plugbay.plugins.nvidia.config.file import parse_file
from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS
from plugbay.plugins.nvidia.config.printing import printed
from plugbay.plugins.nvidia.config.resource_names import NO_PATTERNS
from plugbay.plugins.nvidia.config.validation import validate

SHARED: Final[dict[str, Any]] = {
    "renameByDefault": True,
    "failRequestsGreaterThanOne": True,
    "resources": [
        {"name": "nvidia.com/gpu", "rename": "nvidia.com/slice", "replicas": 4, "devices": "all"},
        {"name": "mig-1g.5gb", "replicas": 2, "devices": [0, "0:1"]},
    ],
}
WHOLE: Final[dict[str, Any]] = {
    "version": "v1",
    "flags": {
        "migStrategy": "single",
        "failOnInitError": False,
        "mpsRoot": "/run/nvidia/mps",
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "nvidiaDevRoot": "/run/nvidia/dev",
        "gdrcopyEnabled": True,
        "gdsEnabled": True,
        "mofedEnabled": True,
        "useNodeFeatureAPI": True,
        "deviceDiscoveryStrategy": "nvml",
        "plugin": {
            "passDeviceSpecs": True,
            "deviceListStrategy": ["envvar", "cdi-cri"],
            "deviceIDStrategy": "index",
            "cdiAnnotationPrefix": "cdi.example.com/",
            "nvidiaCTKPath": "/usr/local/bin/nvidia-ctk",
            "containerDriverRoot": "/driver",
            "sharedDevicesAllocationPolicy": "packed",
            "healthRecovery": "clean",
            "healthCleanTime": "90s",
            "rescanInterval": "1m",
        },
        "gfd": {
            "oneshot": True,
            "noTimestamp": True,
            "sleepInterval": "infinite",
            "outputFile": "/out",
            "machineTypeFile": "/machine",
        },
    },
    "resources": {
        "gpus": [{"pattern": "*A100*", "name": "nvidia.com/a100"}],
        "mig": [{"pattern": "1g.*", "name": "small"}],
    },
    "sharing": {"timeSlicing": SHARED, "mps": SHARED},
    "imex": {"channelIDs": [0], "required": True},
}
"""A file with every field there is."""

WRONG: Final[tuple[Any, ...]] = (True, 7, -1, 2.5, "some thing else", [], [[]], {"nope": 1}, "", None)
ROOT: Final = parse_arguments(["--mps-root=/run/nvidia/mps"])
FREE_TEXTS: Final = frozenset(
    "mpsRoot nvidiaDriverRoot nvidiaDevRoot cdiAnnotationPrefix nvidiaCTKPath containerDriverRoot outputFile "
    "machineTypeFile pattern".split()
)


def places(value: object, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Every value of a document, with its place."""
    yield path, value
    match value:
        case dict():
            for name, each in value.items():
                yield from places(each, (*path, name))
        case list():
            for index, each in enumerate(value):
                yield from places(each, (*path, index))


PLACES: Final = [path for path, _ in places(WHOLE) if path]


def replaced(path: FieldPath, value: object) -> dict[str, Any]:
    """The whole file with another value at one place."""
    copy: dict[str, Any] = json.loads(json.dumps(WHOLE))
    holder: Any = copy
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copy


def read(text: str, dialect: Dialect) -> str:
    content = parse_file(text, source="config.yaml", dialect=dialect)
    return printed(validate(content, ROOT, has_nvml=True), NO_PATTERNS)


def line_of(text: str, path: FieldPath) -> int:
    """The line of the place in the text that `to_yaml` writes, by what the writer of the test can see there."""
    lines = text.splitlines()
    number = 0
    for depth, step in enumerate(path):
        indent = "  " * sum(isinstance(each, str) for each in path[:depth])
        if isinstance(step, str):
            number = next(
                index
                for index in range(number, len(lines))
                if lines[index].replace("- ", "  ").startswith(f"{indent}{step}:")
            )
        else:
            items = [index for index in range(number + 1, len(lines)) if lines[index].startswith(f"{indent[2:]}- ")]
            number = items[step]
    return number + 1


def test_the_whole_file_has_every_field_of_the_schema() -> None:
    assert {flag.field for flag in PLUGIN_FLAGS if flag.field} <= set(PLACES)


@pytest.mark.parametrize("dialect", Dialect)
def test_whole_file_is_read(dialect: Dialect) -> None:
    assert (
        read(to_yaml(WHOLE), dialect)
        == read(json.dumps(WHOLE), dialect)
        == read(json.dumps(WHOLE, indent="\t"), dialect)
    )


def is_fitting(path: FieldPath, value: object) -> bool:
    """Whether the value may stand at the place."""
    name = next(step for step in reversed(path) if isinstance(step, str))
    here = path[-1]
    known = dict(places(WHOLE))[path]
    if path == ("resources",):
        return value is None
    if value is None:
        return (
            here not in ("name", "replicas", "rename", "devices", "pattern", "resources")
            and path[-2:]
            not in (
                ("sharing", "timeSlicing"),
                ("sharing", "mps"),
            )
            and not isinstance(here, int)
        )
    if name in FREE_TEXTS:
        return isinstance(value, str) and (bool(value) or name != "nvidiaCTKPath")
    if isinstance(known, bool):
        return isinstance(value, bool)
    if name == "replicas":
        return value == 7
    if name == "devices":
        return value == 7 and isinstance(value, int) and not isinstance(value, bool)
    if name == "sleepInterval":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name == "version":
        return value == ""
    if name in ("gpus", "mig", "channelIDs") and here == name:
        return value == []
    return False


@pytest.mark.parametrize("path", PLACES, ids=field_text)
def test_every_field_wrong_in_turn(path: FieldPath) -> None:
    for value in WRONG:
        text = to_yaml(replaced(path, value))
        if is_fitting(path, value):
            read(text, Dialect.EXTENDED)
            continue
        with pytest.raises(InvalidNvidiaConfig) as raised:
            read(text, Dialect.EXTENDED)
        error = raised.value
        assert error.source == "config.yaml"
        # Of a list of flags the whole list has a place.
        is_item = "channelIDs" in path or "deviceListStrategy" in path
        assert error.field.startswith(field_text(path[:-1] if is_item and len(path) > 1 else path)), (value, error)
        assert error.line is not None
        assert line_of(text, path) - is_item * 2 <= error.line <= line_of(text, path) + 3, (value, error)
        assert error.allowed or "wants" in error.problem or "resource name" in error.problem, (value, error)
        assert str(error).startswith(f"config.yaml:{error.line}: {error.field}: {error.problem}")


@pytest.mark.parametrize("path", [path for path in PLACES if isinstance(path[-1], str)], ids=field_text)
def test_every_field_misspelt_in_turn(path: FieldPath) -> None:
    *_, name = path
    whole: dict[str, Any] = json.loads(json.dumps(WHOLE))
    holder: Any = whole
    for step in path[:-1]:
        holder = holder[step]
    holder[f"{name}s"] = holder.pop(name)
    with pytest.raises(InvalidNvidiaConfig) as raised:
        read(to_yaml(whole), Dialect.EXTENDED)
    assert raised.value.problem in ("unknown field", "no resources specified")
    assert str(name) in raised.value.allowed
    assert raised.value.line


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["all", "v1", "gpu", "0", "infinite", "5s", "envvar", "mixed", "*", ""])
    | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted({str(path[-1]) for path in PLACES if isinstance(path[-1], str)}))
            | st.text(max_size=5),
            children,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def refusal(text: str, dialect: Dialect) -> InvalidNvidiaConfig | None:
    """The error of a text; None for a configuration."""
    try:
        read(text, dialect)
    except InvalidNvidiaConfig as error:
        return error
    return None


@given(st.sampled_from(PLACES), anything, st.sampled_from(Dialect))
def test_any_value_anywhere_is_a_configuration_or_the_one_error(
    path: FieldPath, value: object, dialect: Dialect
) -> None:
    if error := refusal(to_yaml(replaced(path, value)), dialect):
        assert error.source == "config.yaml"
        assert error.problem
        assert "config.yaml" not in error.problem


@given(anything, st.sampled_from(Dialect))
def test_any_document_is_a_configuration_or_the_one_error(value: object, dialect: Dialect) -> None:
    refusal(to_yaml(value), dialect)


@given(st.text(max_size=60), st.sampled_from(Dialect))
def test_any_text_is_a_configuration_or_the_one_error(text: str, dialect: Dialect) -> None:
    if error := refusal(text, dialect):
        assert str(error).startswith("config.yaml")


def test_reference_dialect_says_which_fields_it_ignores() -> None:
    content = parse_file("imex:\n  foo: 1\nbar: 2\n", source="config.yaml", dialect=Dialect.REFERENCE)
    assert content.warnings == (
        "config.yaml:3: bar: there is no such field; it is ignored (allowed: version, flags, resources, sharing, imex)",
        "config.yaml:2: imex.foo: there is no such field; it is ignored (allowed: channelIDs, required)",
    )
