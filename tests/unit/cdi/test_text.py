"""Spec files: what is read, what is refused and where, and that what is written is read back."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.cdi.rules import HOOK_NAMES
from plugbay.cdi.spec import Device, DeviceNode, Edits, Hook, IntelRdt, Mount, NetDevice, Spec
from plugbay.cdi.text import Format, read_spec, write_spec
from plugbay.cdi.versions import VERSIONS, minimum_version
from plugbay.errors import InvalidCdiSpec

WHOLE = """
cdiVersion: "1.1.0"
kind: vendor.example/gopher.x
annotations: {vendor.example/made-by: hand}
containerEdits:
  env: ["A=1", "B="]
  intelRdt: {closID: c, schemata: ["L3:0=f"], enableMonitoring: true}
devices:
- name: 0
  annotations: {x: "y"}
  containerEdits:
    deviceNodes:
    - {path: /dev/g, hostPath: /dev/fuse, type: c, major: 10, minor: 229,
       fileMode: 420, permissions: rw, uid: 0, gid: 8}
    mounts: [{hostPath: /a, containerPath: /b, options: [ro, rbind], type: none}]
    hooks: [{hookName: createContainer, path: /bin/x, args: [x, 1], env: [H=1], timeout: 5}]
    additionalGids: [0, 777]
    netDevices: [{hostInterfaceName: eth9, name: g0}]
"""


def test_every_field_is_read() -> None:
    assert read_spec(WHOLE, source="s") == Spec(
        "1.1.0",
        "vendor.example/gopher.x",
        {"vendor.example/made-by": "hand"},
        (
            Device(
                "0",
                {"x": "y"},
                Edits(
                    device_nodes=(DeviceNode("/dev/g", "/dev/fuse", "c", 10, 229, 0o644, "rw", 0, 8),),
                    net_devices=(NetDevice("eth9", "g0"),),
                    hooks=(Hook("createContainer", "/bin/x", ("x", "1"), ("H=1",), 5),),
                    mounts=(Mount("/a", "/b", ("ro", "rbind"), "none"),),
                    additional_gids=(0, 777),
                ),
            ),
        ),
        Edits(env=("A=1", "B="), intel_rdt=IntelRdt("c", schemata=("L3:0=f",), enable_monitoring=True)),
    )


def test_json_is_read_whatever_the_case_of_its_keys() -> None:
    text = json.dumps(
        {"CDIVERSION": "0.3.0", "Kind": "v/c", "devices": [{"NAME": "a", "containeredits": {"Env": ["A=1"]}}]}
    )
    assert read_spec(text, source="s").devices == (Device("a", edits=Edits(env=("A=1",))),)


def spec(**changes: object) -> str:
    whole: dict[str, object] = {
        "cdiVersion": "1.1.0",
        "kind": "v/c",
        "devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}],
    }
    return json.dumps({key: value for key, value in (whole | changes).items() if value != "absent"})


def with_edits(**edits: object) -> str:
    return spec(devices=[{"name": "a", "containerEdits": edits}])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no Spec data"),
        ("# nothing", "no Spec data"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("[1]", "wants a mapping, found a list"),
        ("kind: [", "not valid YAML"),
        ("kind: a\nkind: b", "duplicate key"),
        (spec(cdiVersion="absent"), 'invalid version ""'),
        (spec(cdiVersion="0.9.0"), 'invalid version "0.9.0"'),
        (spec(cdiVersion="0.4.0", annotations={"a": "b"}), "must be at least v0.6.0"),
        (spec(kind="absent"), 'invalid CDI kind ""'),
        (spec(kind="1v/c"), "vendor '1v' has to start with a letter"),
        (spec(annotations={"a b": "c"}), '"a b" is no key of an annotation'),
        (spec(annotations={"a": "c" * 262144}), "more than 262144 bytes"),
        (spec(devices="absent"), "no devices"),
        (spec(devices=[]), "no devices"),
        (spec(devices=[{"name": "a", "containerEdits": {}}]), "empty device edits"),
        (spec(devices=[{"name": "a"}]), "empty device edits"),
        (spec(devices=[{"containerEdits": {"env": ["A=1"]}}]), "device name"),
        (spec(devices=2 * [{"name": "a", "containerEdits": {"env": ["A=1"]}}]), 'multiple device "a"'),
        (spec(extra=1), "extra: unknown field"),
        (with_edits(envs=[]), "devices[0].containerEdits.envs: unknown field"),
        (with_edits(intelRdt={"enableCMT": True}), "enableCMT: unknown field"),
        (with_edits(env="A=1"), 'devices[0].containerEdits.env: wants a list, found "A=1"'),
        (with_edits(env=["A"]), 'device "a": invalid environment variable "A"'),
        (with_edits(env=["=A"]), 'invalid environment variable "=A"'),
        (with_edits(env=[["A=1"]]), "env[0]: wants a text, found a list"),
        (with_edits(deviceNodes=[{"hostPath": "/dev/x"}]), "invalid (empty) device path"),
        (with_edits(deviceNodes=[{"path": "/dev/x", "type": "x"}]), 'invalid type "x"'),
        (with_edits(deviceNodes=[{"path": "/dev/x", "permissions": "rx"}]), 'invalid permissions "rx"'),
        (with_edits(deviceNodes=[{"path": "/dev/x", "uid": -1}]), "uid: wants an integer from 0 to 4294967295"),
        (with_edits(deviceNodes=[{"path": "/dev/x", "major": "1"}]), 'major: wants an integer, found "1"'),
        (with_edits(deviceNodes=[{"path": "/dev/x", "major": True}]), "major: wants an integer, found true"),
        (with_edits(mounts=[{"containerPath": "/x"}]), "invalid mount, empty host path"),
        (with_edits(mounts=[{"hostPath": "/x"}]), "invalid mount, empty container path"),
        (with_edits(hooks=[{"hookName": "never", "path": "/x"}]), 'invalid hook name "never"'),
        (with_edits(hooks=[{"hookName": "poststop"}]), 'invalid hook "poststop" with empty path'),
        (with_edits(hooks=[{"hookName": "poststop", "path": "/x", "env": ["A"]}]), 'environment variable "A"'),
        (with_edits(intelRdt={"closID": ".."}), 'invalid Intel RDT closID ".."'),
        (with_edits(intelRdt={"enableMonitoring": "yes"}), "wants true or false"),
        (with_edits(netDevices=[{"name": "a"}]), "empty hostInterfaceName"),
        (with_edits(netDevices=[{"hostInterfaceName": "a"}]), "empty name"),
        (
            with_edits(netDevices=[{"hostInterfaceName": "a", "name": "b"}, {"hostInterfaceName": "a", "name": "c"}]),
            'multiple host interface "a"',
        ),
        (
            with_edits(netDevices=[{"hostInterfaceName": "a", "name": "b"}, {"hostInterfaceName": "c", "name": "b"}]),
            'multiple name "b"',
        ),
    ],
)
def test_a_bad_spec_is_refused_in_one_sentence(text: str, problem: str) -> None:
    with pytest.raises(InvalidCdiSpec) as refused:
        read_spec(text, source="spec.yaml")
    assert str(refused.value).startswith("spec.yaml")
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_problem_tells_its_line() -> None:
    with pytest.raises(InvalidCdiSpec, match=r"^spec.yaml: line 3: colour: unknown field$"):
        read_spec("cdiVersion: 0.3.0\nkind: v/c\ncolour: red\n", source="spec.yaml")


@pytest.mark.parametrize(
    ("edits", "version"),
    [
        (Edits(env=("A=1",)), "0.3.0"),
        (Edits(mounts=(Mount("/a", "/b", type="bind"),)), "0.4.0"),
        (Edits(device_nodes=(DeviceNode("/a", "/b"),)), "0.5.0"),
        (Edits(additional_gids=(0,)), "0.7.0"),
        (Edits(intel_rdt=IntelRdt("x")), "0.7.0"),
        (Edits(intel_rdt=IntelRdt(schemata=())), "1.1.0"),
        (Edits(intel_rdt=IntelRdt(enable_monitoring=True)), "1.1.0"),
        (Edits(net_devices=(NetDevice("a", "b"),)), "1.1.0"),
    ],
)
def test_the_minimum_version_follows_the_content(edits: Edits, version: str) -> None:
    device = Device("a", edits=Edits(env=("A=1",)))
    assert minimum_version(Spec(kind="v/c", devices=(Device("a", edits=edits),))) == version
    assert minimum_version(Spec(kind="v/c", devices=(device,), edits=edits)) == version


def test_the_minimum_version_follows_the_names() -> None:
    edits = Edits(env=("A=1",))
    assert minimum_version(Spec(kind="v/c", devices=(Device("1", edits=edits),))) == "0.5.0"
    assert minimum_version(Spec(kind="v.example/c", devices=(Device("a", edits=edits),))) == "0.3.0"
    assert minimum_version(Spec(kind="v/c.d", devices=(Device("a", edits=edits),))) == "0.6.0"
    assert minimum_version(Spec(kind="v/c", devices=(Device("a", {"x": "y"}, edits),))) == "0.6.0"


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
        DeviceNode,
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
    st.builds(Mount, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple), TEXT | st.just("")), max_size=2
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
        st.builds(Device, NAME, edits=EDITS.filter(lambda edits: not edits.is_empty())),
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


def _rest(spec: Spec) -> tuple[str, dict[str, str], tuple[Device, ...], Edits]:
    return spec.kind, dict(spec.annotations), spec.devices, spec.edits
