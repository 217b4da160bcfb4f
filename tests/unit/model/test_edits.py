"""How the edits of several devices, and of several resources, become one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import ConflictingEdits
from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount, merge_devices, merge_resources

names = st.sampled_from("abc")
paths = st.sampled_from(["/a", "/b"])
container_edits = st.builds(
    ContainerEdits,
    env=st.dictionaries(names, names, max_size=3),
    mounts=st.lists(st.builds(Mount, paths, container_path=paths), max_size=2).map(tuple),
    device_nodes=st.lists(st.builds(DeviceNode, paths, container_path=paths), max_size=2).map(tuple),
    annotations=st.dictionaries(names, names, max_size=2),
    cdi_devices=st.lists(names, max_size=3).map(tuple),
)


def test_the_path_of_the_host_comes_first_and_is_the_containers_as_well_if_that_is_not_named() -> None:
    assert DeviceNode("/dev/fuse") == DeviceNode("/dev/fuse", container_path="/dev/fuse", permissions="rw")
    pretty = DeviceNode(Path("/dev/null"), container_path=Path("/dev/pretty"))
    assert (pretty.host_path, pretty.container_path) == ("/dev/null", "/dev/pretty")
    assert Mount(Path("/srv")) == Mount("/srv", container_path="/srv", read_only=False)
    with pytest.raises(TypeError):
        DeviceNode("/dev/null", "/dev/pretty")  # type: ignore[call-arg]  # which of them is the host's?
    with pytest.raises(TypeError):
        Mount("/srv", "/data")  # type: ignore[call-arg]


def test_edits_take_lists_as_devices_do() -> None:
    listed = ContainerEdits(mounts=[Mount("/srv")], device_nodes=[DeviceNode("/dev/fuse")], cdi_devices=["a/b=c"])
    device = Device("d", mounts=[Mount("/srv")], device_nodes=[DeviceNode("/dev/fuse")], cdi_devices=["a/b=c"])
    assert listed == device.edits
    assert pickle.loads(pickle.dumps(listed)) == listed
    assert replace(listed, env={"A": "x"}).mounts == (Mount("/srv"),)


def env(**values: str) -> ContainerEdits:
    return ContainerEdits(env=values)


@pytest.mark.parametrize(
    ("edits", "merged"),
    [
        pytest.param([], NO_EDITS, id="no-devices"),
        pytest.param([env(Gopher="g1")], env(Gopher="g1"), id="one-device"),
        pytest.param([env(Gopher="g1"), env(Gopher="g2")], env(Gopher="g1,g2"), id="env-joined-in-order"),
        pytest.param([env(Gopher="g2"), env(Gopher="g1")], env(Gopher="g2,g1"), id="the-order-is-the-callers"),
        pytest.param([env(A="1"), env(B="2")], env(A="1", B="2"), id="different-names-side-by-side"),
        pytest.param([env(A="1"), env(), env(A="3")], env(A="1,3"), id="a-device-without-the-name-adds-nothing"),
        pytest.param(
            [
                ContainerEdits(mounts=(Mount("/h", container_path="/c"),)),
                ContainerEdits(mounts=(Mount("/h", container_path="/c"), Mount("/h", container_path="/d"))),
            ],
            ContainerEdits(mounts=(Mount("/h", container_path="/c"), Mount("/h", container_path="/d"))),
            id="an-equal-mount-once",
        ),
        pytest.param(
            [ContainerEdits(device_nodes=(DeviceNode("/h", container_path="/c"),))] * 2,
            ContainerEdits(device_nodes=(DeviceNode("/h", container_path="/c"),)),
            id="an-equal-node-once",
        ),
        pytest.param(
            [ContainerEdits(annotations={"k": "v"})] * 2, ContainerEdits(annotations={"k": "v"}), id="equal-annotations"
        ),
        pytest.param(
            [ContainerEdits(cdi_devices=("b", "a")), ContainerEdits(cdi_devices=("a", "c"))],
            ContainerEdits(cdi_devices=("b", "a", "c")),
            id="cdi-names-once",
        ),
    ],
)
def test_devices_of_one_plugin(edits: list[ContainerEdits], merged: ContainerEdits) -> None:
    assert merge_devices(edits) == merged


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        pytest.param(
            ContainerEdits(mounts=(Mount("/a", container_path="/c"),)),
            ContainerEdits(mounts=(Mount("/b", container_path="/c"),)),
            "two devices disagree about mount '/c'",
            id="mount",
        ),
        pytest.param(
            ContainerEdits(mounts=(Mount("/a", container_path="/c", read_only=True),)),
            ContainerEdits(mounts=(Mount("/a", container_path="/c"),)),
            "two devices disagree about mount '/c'",
            id="mount-mode",
        ),
        pytest.param(
            ContainerEdits(device_nodes=(DeviceNode("/a", container_path="/c", permissions="r"),)),
            ContainerEdits(device_nodes=(DeviceNode("/a", container_path="/c", permissions="rw"),)),
            "two devices disagree about device node '/c'",
            id="node",
        ),
        pytest.param(
            ContainerEdits(annotations={"k": "1"}),
            ContainerEdits(annotations={"k": "2"}),
            "two devices disagree about annotation 'k': 1 and 2",
            id="annotation",
        ),
    ],
)
def test_devices_that_disagree(first: ContainerEdits, second: ContainerEdits, sentence: str) -> None:
    with pytest.raises(ConflictingEdits) as conflict:
        merge_devices([first, second])
    assert str(conflict.value).startswith(sentence)


def test_another_separator() -> None:
    assert merge_devices([env(A="1"), env(A="2")], join_env=":") == env(A="1:2")


def test_without_a_separator_only_equal_values_merge() -> None:
    assert merge_devices([env(A="1"), env(A="1")], join_env=None) == env(A="1")
    with pytest.raises(ConflictingEdits, match="environment variable 'A': 1 and 2"):
        merge_devices([env(A="1"), env(A="2")], join_env=None)


@pytest.mark.parametrize(
    ("edits", "merged"),
    [
        pytest.param([], NO_EDITS, id="nothing"),
        pytest.param([env(A="1"), env(A="2", B="3")], env(A="1", B="3"), id="env"),
        pytest.param(
            [
                ContainerEdits(mounts=(Mount("/a", container_path="/c"),)),
                ContainerEdits(mounts=(Mount("/b", container_path="/c"), Mount("/b", container_path="/d"))),
            ],
            ContainerEdits(mounts=(Mount("/a", container_path="/c"), Mount("/b", container_path="/d"))),
            id="mounts",
        ),
        pytest.param(
            [ContainerEdits(annotations={"k": "1"}), ContainerEdits(annotations={"k": "2"})],
            ContainerEdits(annotations={"k": "1"}),
            id="annotations",
        ),
    ],
)
def test_first_resource_wins(edits: list[ContainerEdits], merged: ContainerEdits) -> None:
    assert merge_resources(edits) == merged


@given(st.lists(container_edits, max_size=4))
def test_merged_resources_hold_everything_once(edits: list[ContainerEdits]) -> None:
    merged = merge_resources(edits)
    assert merged.env.keys() == {name for edit in edits for name in edit.env}
    assert sorted(mount.container_path for mount in merged.mounts) == sorted(
        {mount.container_path for edit in edits for mount in edit.mounts}
    )
    assert sorted(node.container_path for node in merged.device_nodes) == sorted(
        {node.container_path for edit in edits for node in edit.device_nodes}
    )
    assert sorted(merged.cdi_devices) == sorted({name for edit in edits for name in edit.cdi_devices})


@given(st.lists(container_edits, max_size=4))
def test_merging_resources_again_changes_nothing(edits: list[ContainerEdits]) -> None:
    merged = merge_resources(edits)
    assert merge_resources([merged, *edits]) == merged


@given(st.lists(container_edits, max_size=3))
def test_devices_merge_or_conflict_whatever_their_order(edits: list[ContainerEdits]) -> None:
    assert merges(edits) == merges(edits[::-1])


@given(st.lists(container_edits, max_size=3))
def test_devices_that_agree_lose_nothing(edits: list[ContainerEdits]) -> None:
    try:
        merged = merge_devices(edits)
    except ConflictingEdits:
        return
    assert set(merged.mounts) == {mount for edit in edits for mount in edit.mounts}
    assert set(merged.device_nodes) == {node for edit in edits for node in edit.device_nodes}
    assert set(merged.annotations.items()) == {item for edit in edits for item in edit.annotations.items()}
    for name, value in merged.env.items():
        assert value.split(",") == [edit.env[name] for edit in edits if name in edit.env]


def merges(edits: list[ContainerEdits]) -> bool:
    try:
        merge_devices(edits)
    except ConflictingEdits:
        return False
    return True
