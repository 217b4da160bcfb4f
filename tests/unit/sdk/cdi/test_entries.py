"""What a CDI spec says of a plugin's devices, and what Allocate answers beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cdi.names import check_device_name, parse_kind, parse_qualified_name
from plugbay.cdi.registry import SpecFile, registry_of
from plugbay.cdi.rules import check_spec
from plugbay.errors import InvalidDevice
from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount, merge_devices
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.author.cdi_answers import CdiAnswer
from plugbay.sdk.cdi.entries import WITHOUT_ENV, answer, entries_of, entry_name, spec_of

KIND = parse_kind("vendor.example/gopher")
RESOURCE = ResourceName("vendor.example/gopher")

IDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=15)
ENV = st.dictionaries(st.sampled_from(["A", "B", "C"]), st.text("xyz", max_size=2), max_size=3)
PATHS = st.sampled_from(["/dev/a", "/dev/b"])


@st.composite
def lists_of_devices(draw: st.DrawFn) -> list[Device]:
    """Of devices that go together: paths are of one device alone."""
    return [
        Device(
            name,
            env=draw(ENV),
            device_nodes=[DeviceNode("/dev/null", container_path=f"/dev/n{number}")] * draw(st.integers(0, 1)),
            mounts=[Mount("/etc", container_path=f"/m{number}")] * draw(st.integers(0, 1)),
        )
        for number, name in enumerate(draw(st.lists(IDS, min_size=1, max_size=4, unique=True)))
    ]


def expressible(devices: list[Device]) -> list[Device]:
    return [device for device in devices if device.edits != NO_EDITS]


def injected(devices: list[Device], said: ContainerEdits) -> tuple[dict[str, str], set[str], set[str]]:
    """The variables, nodes and mounts of a container: by the answer, then by an engine that injects its CDI names."""
    spec = spec_of(KIND, {entry_name(device.id): entries_of(device) for device in devices})
    check_spec(spec, source="spec")
    registry = registry_of([SpecFile("spec", 0, spec)])
    edits = registry.edits([parse_qualified_name(each) for each in said.cdi_devices])
    env = {**said.env, **dict(each.split("=", 1) for each in edits.env)}
    nodes = {node.container_path for node in said.device_nodes} | {node.path for node in edits.device_nodes}
    mounts = {mount.container_path for mount in said.mounts} | {mount.container_path for mount in edits.mounts}
    return env, nodes, mounts


@given(devices=lists_of_devices(), how=st.sampled_from([CdiAnswer.NAMES, CdiAnswer.NAMES | CdiAnswer.EDITS]), own=ENV)
def test_container_gets_what_it_gets_without_cdi(devices: list[Device], how: CdiAnswer, own: dict[str, str]) -> None:
    devices = sorted(expressible(devices), key=lambda device: device.id)
    if not devices:
        return
    merged = merge_devices(device.edits for device in devices)
    said = answer(devices, kind=KIND, resource=RESOURCE, how=how, merged=merged, given=ContainerEdits(env=own))
    assert injected(devices, said) == (
        {**merged.env, **own},
        {node.container_path for node in merged.device_nodes},
        {mount.container_path for mount in merged.mounts},
    )


@given(st.lists(IDS, unique=True))
def test_names_are_good_and_of_one_device_each(ids: list[str]) -> None:
    names = [entry_name(DeviceId(each)) for each in ids]
    for name in names:
        check_device_name(name)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["gpu0", "GPU-8a:1_x.y", "0", "a::1"])
def test_good_ids_are_names_as_they_are(name: str) -> None:
    assert entry_name(DeviceId(name)) == name


def test_annotations_are_per_resource_and_valid() -> None:
    device = Device("g1", env={"A": "1"})
    keys = set()
    for name in ("vendor.example/gopher", "other.example/gopher", f"vendor.example/{'x' * 63}"):
        said = answer(
            [device],
            kind=KIND,
            resource=ResourceName(name),
            how=CdiAnswer.ANNOTATIONS,
            merged=device.edits,
            given=NO_EDITS,
        )
        [(key, value)] = said.annotations.items()
        assert value == "vendor.example/gopher=g1"
        assert len(key) <= len("cdi.k8s.io/") + 63
        keys.add(key)
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        (Device("d", annotations={"a": "b"}), "device d: a CDI spec cannot hold the annotation a"),
        (Device("d", cdi_devices=["a.b/c=d"]), "device d: a CDI spec cannot hold the CDI device a.b/c=d"),
        (Device("d"), "device d: a CDI device needs variables, mounts or device nodes, and it has none"),
        (Device(f"d{WITHOUT_ENV}", env={"A": "1"}), "device d:without-env: with CDI no ID may end with :without-env"),
    ],
    ids=["annotation", "cdi", "nothing", "id"],
)
def test_what_cdi_cannot_hold_is_the_authors_error(device: Device, problem: str) -> None:
    with pytest.raises(InvalidDevice) as caught:
        entries_of(device)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("kind", "device", "version"),
    [
        ("vendor.example/gopher", Device("g1", env={"A": "1"}), "0.3.0"),
        ("vendor.example/gopher", Device("g1", device_nodes=[DeviceNode("/dev/g1")]), "0.3.0"),
        (
            "vendor.example/gopher",
            Device("g1", device_nodes=[DeviceNode("/dev/null", container_path="/dev/g1")]),
            "0.5.0",
        ),
        ("vendor.example/gopher", Device("1g", env={"A": "1"}), "0.5.0"),
        ("vendor.example/go.pher", Device("g1", env={"A": "1"}), "0.6.0"),
    ],
    ids=["variable", "node", "node of another name", "digit first", "dot in the class"],
)
def test_version_is_the_oldest_that_will_do(kind: str, device: Device, version: str) -> None:
    """Engines refuse files of versions that are newer than they are, whatever is in them."""
    spec = spec_of(parse_kind(kind), {entry_name(device.id): entries_of(device)})
    assert spec.version == version
    check_spec(spec, source="spec")
