"""Spec files: what is read, what is refused and where, and that what is written is read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.cdi.rules import HOOK_NAMES
from plugbay.cdi.spec import Edits, Hook, IntelRdt, NetDevice, Spec, SpecDevice, SpecDeviceNode, SpecMount
from plugbay.cdi.text import Format, read_spec, write_spec
from plugbay.cdi.versions import VERSIONS, minimum_version
from plugbay.errors import InvalidCdiSpec

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "cdi"
WHOLE: Final = (GOLDEN / "good" / "every-field.yaml").read_text(encoding="utf-8")
OLDEST: Final = (GOLDEN / "good" / "oldest.yaml").read_text(encoding="utf-8")

Golden: TypeAlias = Callable[[str, str], None]


def test_every_field_is_read() -> None:
    assert read_spec(WHOLE, source="s") == Spec(
        "1.1.0",
        "vendor.example/gopher.x",
        {"vendor.example/made-by": "hand"},
        (
            SpecDevice(
                "0",
                {"x": "y"},
                Edits(
                    device_nodes=(SpecDeviceNode("/dev/g", "/dev/fuse", "c", 10, 229, 0o644, "rw", 0, 8),),
                    net_devices=(NetDevice("eth9", "g0"),),
                    hooks=(Hook("createContainer", "/bin/x", ("x", "1"), ("H=1",), 5),),
                    mounts=(SpecMount("/a", "/b", ("ro", "rbind"), "none"),),
                    additional_gids=(0, 777),
                ),
            ),
        ),
        Edits(env=("A=1", "B="), intel_rdt=IntelRdt("c", schemata=("L3:0=f",), enable_monitoring=True)),
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in (GOLDEN / "good").glob("*.yaml")))
def test_a_good_spec_is_written_as_it_was(name: str, golden: Golden) -> None:
    spec = read_spec((GOLDEN / "good" / f"{name}.yaml").read_text(encoding="utf-8"), source=name)
    written = write_spec(spec, Format.JSON)
    golden(f"good/{name}.json", f"{written}\n")
    assert read_spec(written, source=name) == spec


def test_bad_specs_are_refused_in_one_sentence_each(golden: Golden) -> None:
    files = sorted((GOLDEN / "bad").glob("*.yaml"))
    problems = [refusal(path.read_text(encoding="utf-8"), source=path.name) for path in files]
    golden("bad/problems.txt", "".join(f"{problem}\n" for problem in problems))


def test_what_is_no_yaml_is_refused_in_the_words_of_its_reader() -> None:
    assert refusal("kind: [", source="s").startswith("s: line 1: not valid YAML: ")


@pytest.mark.parametrize("second", ["kind: b.example/c\n", "kind: [", "{}"])
def test_the_first_document_counts(second: str) -> None:
    assert read_spec(f"{OLDEST}---\n{second}", source="f") == read_spec(OLDEST, source="f")


@pytest.mark.parametrize(
    ("written", "read"),
    [("420.0", 420), ("4.2e2", 420), ("0x1a4", 420), ("0X1A4", 420), ("0o644", 420), ("0O644", 420), ("0B11", 3)],
)
def test_whole_numbers_are_integers_however_they_are_written(written: str, read: int) -> None:
    text = f"""
cdiVersion: 0.7.0
kind: a.example/b
devices: [{{name: d, containerEdits: {{deviceNodes: [{{path: /d, fileMode: {written}, minor: {written}}}]}}}}]
"""
    (node,) = read_spec(text, source="f").devices[0].edits.device_nodes
    assert (node.file_mode, node.minor) == (read, read)


@pytest.mark.parametrize("argument", ["y", "N", "yes", "off", "0X1F", "0B1", "0O17", "1e3", "~", "null"])
def test_texts_that_engines_would_take_for_something_else_are_quoted(argument: str) -> None:
    """Go's YAML library knows ``y`` and ``n`` as booleans."""
    hooks = (Hook("prestart", "/h", args=(argument,)),)
    spec = Spec("0.5.0", "a.example/b", devices=(SpecDevice("d", edits=Edits(hooks=hooks)),))
    written = write_spec(spec, Format.YAML)
    assert f"'{argument}'" in written
    assert read_spec(written, source="f") == spec


@pytest.mark.parametrize("member", ["kind", "annotations"])
def test_half_a_character_is_refused(member: str) -> None:
    value = {"kind": '"a.example/b\\ud800"', "annotations": '{"a": "\\ud800"}'}[member]
    with pytest.raises(InvalidCdiSpec, match="holds half of a character"):
        read_spec(f'{{"cdiVersion": "0.7.0", "{member}": {value}}}', source="f")


def test_a_group_of_null_is_no_group() -> None:
    text = "cdiVersion: 0.7.0\nkind: a.example/b\ndevices: [{name: d, containerEdits: {additionalGids: [null, 5]}}]"
    assert read_spec(text, source="f").devices[0].edits.additional_gids == (0, 5)


def test_annotations_have_no_more_than_an_engine_takes() -> None:
    def text(length: int) -> str:
        return json.dumps(yaml.safe_load(OLDEST) | {"cdiVersion": "1.1.0", "annotations": {"a": "c" * length}})

    assert read_spec(text(2**18 - 1), source="s").annotations
    assert refusal(text(2**18), source="s") == "s: annotations: more than 262144 bytes"


def refusal(text: str, *, source: str) -> str:
    with pytest.raises(InvalidCdiSpec) as refused:
        read_spec(text, source=source)
    return str(refused.value)


def test_a_problem_tells_its_line() -> None:
    with pytest.raises(InvalidCdiSpec, match=r"^spec.yaml: line 3: colour: unknown field$"):
        read_spec("cdiVersion: 0.3.0\nkind: v/c\ncolour: red\n", source="spec.yaml")


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        (Edits(env=("A=1",)), "0.3.0"),
        (Edits(mounts=(SpecMount("/a", "/b", type="bind"),)), "0.4.0"),
        (Edits(device_nodes=(SpecDeviceNode("/a", "/b"),)), "0.5.0"),
        (Edits(additional_gids=(0,)), "0.7.0"),
        (Edits(intel_rdt=IntelRdt("x")), "0.7.0"),
        (Edits(intel_rdt=IntelRdt(schemata=())), "1.1.0"),
        (Edits(intel_rdt=IntelRdt(enable_monitoring=True)), "1.1.0"),
        (Edits(net_devices=(NetDevice("a", "b"),)), "1.1.0"),
    ],
)
def test_the_minimum_version_follows_the_content(edits: Edits, version: str) -> None:
    device = SpecDevice("a", edits=Edits(env=("A=1",)))
    assert minimum_version(Spec(kind="v/c", devices=(SpecDevice("b", edits=edits), device))) == version
    assert minimum_version(Spec(kind="v/c", devices=(device,), edits=edits)) == version


def test_the_minimum_version_follows_the_names() -> None:
    edits = Edits(env=("A=1",))
    assert minimum_version(Spec(kind="v/c", devices=(SpecDevice("1", edits=edits),))) == "0.5.0"
    assert minimum_version(Spec(kind="v.example/c", devices=(SpecDevice("a", edits=edits),))) == "0.3.0"
    assert minimum_version(Spec(kind="v/c.d", devices=(SpecDevice("a", edits=edits),))) == "0.6.0"
    assert minimum_version(Spec(kind="v/c", devices=(SpecDevice("a", {"x": "y"}, edits),))) == "0.6.0"


@pytest.mark.parametrize("form", Format)
def test_settings_of_nothing_are_written_too(form: Format) -> None:
    device = SpecDevice("d", edits=Edits(intel_rdt=IntelRdt()))
    spec = Spec("0.7.0", "a.example/b", devices=(device,))
    assert read_spec(write_spec(spec, form), source="f") == spec


def test_yaml_output_begins_a_document() -> None:
    written = write_spec(read_spec(WHOLE, source="s"), Format.YAML)
    assert written.startswith("---\n")
    assert yaml.safe_load(written)["devices"][0]["name"] == "0", "a text stays one"


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
NAME = st.from_regex(r"[a-z0-9]([a-z0-9:._-]{0,6}[a-z0-9])?", fullmatch=True)
ENV = st.lists(st.builds(lambda name, value: f"{name}={value}", NAME, TEXT), max_size=2).map(tuple)
GID = st.integers(0, 2**32 - 1)
NODES = st.lists(
    st.builds(
        SpecDeviceNode,
        TEXT,
        TEXT | st.just(""),
        st.sampled_from(["", "b", "c", "u", "p"]),
        st.integers(0, 255),
        st.integers(0, 255),
        st.none() | st.integers(0, 0o777),
        st.sampled_from(["", "r", "rw", "rwm", "none"]),
        st.none() | GID,
        st.none() | GID,
    ),
    max_size=2,
).map(tuple)
MOUNTS = st.lists(
    st.builds(SpecMount, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple), TEXT | st.just("")), max_size=2
).map(tuple)
HOOKS = st.lists(
    st.builds(
        Hook,
        st.sampled_from(HOOK_NAMES),
        TEXT,
        st.lists(TEXT, max_size=2).map(tuple),
        ENV,
        st.none() | st.integers(0, 9),
    ),
    max_size=2,
).map(tuple)
EDITS = st.builds(
    Edits,
    env=ENV,
    device_nodes=NODES,
    mounts=MOUNTS,
    hooks=HOOKS,
    additional_gids=st.lists(GID, max_size=2).map(tuple),
)
SPECS = st.builds(
    Spec,
    version=st.just(VERSIONS[-1]),
    kind=st.just("vendor.example/class"),
    annotations=st.dictionaries(NAME.filter(lambda name: ":" not in name), TEXT, max_size=2),
    devices=st.lists(
        st.builds(SpecDevice, NAME, edits=EDITS.filter(lambda edits: not edits.is_empty())),
        min_size=1,
        max_size=3,
        unique_by=lambda device: device.name,
    ).map(tuple),
    edits=EDITS,
)


@settings(max_examples=25)
@given(SPECS, st.sampled_from(Format))
def test_what_is_written_is_read_back(spec: Spec, form: Format) -> None:
    assert read_spec(write_spec(spec, form), source="s") == spec


@settings(max_examples=25)
@given(SPECS)
def test_the_minimum_version_is_enough_and_the_one_before_is_not(spec: Spec) -> None:
    needed = minimum_version(spec)
    assert read_spec(write_spec(Spec(needed, *_rest(spec)), Format.JSON), source="s").version == needed
    older = VERSIONS[VERSIONS.index(needed) - 1]
    if needed != "0.3.0":
        with pytest.raises(InvalidCdiSpec, match="must be at least"):
            read_spec(write_spec(Spec(older, *_rest(spec)), Format.JSON), source="s")


def _rest(spec: Spec) -> tuple[str, dict[str, str], tuple[SpecDevice, ...], Edits]:
    return spec.kind, dict(spec.annotations), spec.devices, spec.edits
