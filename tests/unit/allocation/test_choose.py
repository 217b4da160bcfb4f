"""The rules of spec 4.9, by number of their step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.allocation.choose import plan, settle, split_by_affinity
from plugbay.allocation.table import DeviceTable
from plugbay.errors import InsufficientDevices
from plugbay.model.devices import ListedDevice
from plugbay.model.ids import DeviceId, ResourceName

RESOURCE = ResourceName("example.com/r")


def table_of(**nodes: tuple[int, ...] | None) -> DeviceTable:
    return DeviceTable.of(ListedDevice(DeviceId(name), "Healthy", on) for name, on in nodes.items())


def ids(*names: str) -> tuple[DeviceId, ...]:
    return tuple(map(DeviceId, names))


FLAT = table_of(a=None, b=None, c=None, d=None)
NUMA = table_of(a=(0,), b=(0,), c=(1,), d=(1,), e=None, f=(0, 1))


def choose(
    table: DeviceTable,
    required: int,
    *,
    claimed: tuple[DeviceId, ...] = (),
    reusable: tuple[DeviceId, ...] = (),
    mask: int = 0,
    preferred: tuple[DeviceId, ...] = (),
) -> tuple[DeviceId, ...]:
    taken = table.set_of(claimed)
    half = plan(RESOURCE, table, claimed=taken, required=required, reusable=reusable, mask=mask)
    return settle(half, table, claimed=taken, preferred=preferred)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        pytest.param(choose(FLAT, 2), ids("a", "b"), id="lowest-rank-first"),
        pytest.param(choose(FLAT, 2, claimed=ids("a")), ids("b", "c"), id="claimed-passed-over"),
        pytest.param(choose(FLAT, 2, reusable=ids("d")), ids("d", "a"), id="1-reused-first"),
        pytest.param(choose(FLAT, 1, reusable=ids("d", "c")), ids("c"), id="1-reuse-no-more-than-needed"),
        pytest.param(choose(FLAT, 2, reusable=ids("gone"), claimed=ids("a")), ids("gone", "b"), id="1-vanished-reused"),
        pytest.param(choose(FLAT, 2, preferred=ids("d", "c")), ids("c", "d"), id="5-preferred"),
        pytest.param(choose(FLAT, 1, preferred=ids("d", "c")), ids("c"), id="5-preference-too-large"),
        pytest.param(choose(FLAT, 3, preferred=ids("d")), ids("a", "b", "d"), id="5-preference-filled-up"),
        pytest.param(choose(FLAT, 1, preferred=ids("gone", "x")), ids("a"), id="5-preference-unusable"),
        pytest.param(choose(FLAT, 1, claimed=ids("d"), preferred=ids("d")), ids("a"), id="5-preference-taken"),
        pytest.param(choose(NUMA, 1, mask=0b10), ids("c"), id="4-aligned-first"),
        pytest.param(choose(NUMA, 1, mask=0b10, preferred=ids("a")), ids("c"), id="4-preference-outside-aligned"),
        pytest.param(choose(NUMA, 1, mask=0b10, preferred=ids("f")), ids("f"), id="4-preference-inside-aligned"),
        pytest.param(choose(NUMA, 4, mask=0b10), ids("a", "c", "d", "f"), id="5-all-aligned-then-unaligned"),
        pytest.param(choose(NUMA, 6, mask=0b10), ids("a", "b", "c", "d", "e", "f"), id="5-no-affinity-last"),
        pytest.param(choose(NUMA, 4, mask=0b10, preferred=ids("e")), ids("c", "d", "e", "f"), id="5-preferred-rest"),
    ],
)
def test_choice(chosen: tuple[DeviceId, ...], expected: tuple[DeviceId, ...]) -> None:
    assert chosen == expected


def test_too_few_free_devices_says_what_is_missing_after_reuse() -> None:
    with pytest.raises(InsufficientDevices) as caught:
        choose(FLAT, 4, claimed=ids("a", "b"), reusable=ids("a"))
    assert str(caught.value) == (
        "requested number of devices unavailable for example.com/r. Requested: 3, Available: 2"
    )


@pytest.mark.parametrize(
    ("required", "reusable", "mask", "question"),
    [
        pytest.param(2, (), 0, (ids("a", "b", "c", "d", "e", "f"), (), 2), id="no-mask"),
        pytest.param(6, (), 0, (ids("a", "b", "c", "d", "e", "f"), (), 6), id="no-mask-takes-all-still-asked"),
        pytest.param(1, (), 0b10, (ids("c", "d", "f"), (), 1), id="fewer-than-aligned"),
        pytest.param(3, (), 0b10, None, id="aligned-fits-exactly"),
        pytest.param(4, (), 0b10, (ids("a", "b", "c", "d", "e", "f"), ids("c", "d", "f"), 4), id="more-than-aligned"),
        pytest.param(1, ids("z"), 0, None, id="reuse-suffices"),
        pytest.param(2, ids("z"), 0b10, (ids("c", "d", "f", "z"), ids("z"), 2), id="reused-must-be-included"),
    ],
)
def test_question_to_the_plugin(
    required: int, reusable: tuple[DeviceId, ...], mask: int, question: tuple[object, ...] | None
) -> None:
    half = plan(RESOURCE, NUMA, claimed=0, required=required, reusable=reusable, mask=mask)
    asked = half.question(NUMA)
    assert (asked and (asked.available, asked.must_include, asked.size)) == question


def test_device_that_vanished_while_the_plugin_was_asked_is_passed_over() -> None:
    half = plan(RESOURCE, FLAT, claimed=0, required=2, reusable=(), mask=0)
    assert settle(half, table_of(b=None, c=None, d=None), claimed=0, preferred=ids("a")) == ids("b", "c")
    with pytest.raises(InsufficientDevices):
        settle(half, table_of(d=None), claimed=0, preferred=ids("a"))


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.none() | st.lists(st.integers(-1, 3), max_size=3).map(tuple), max_size=8
    ),
    st.integers(0, 15),
    st.sets(st.sampled_from("abcdefgh")),
)
def test_split_is_a_partition_by_best_node(
    nodes: dict[str, tuple[int, ...] | None], mask: int, claimed: set[str]
) -> None:
    table = table_of(**nodes)
    available = table.healthy & ~table.set_of(map(DeviceId, claimed))
    split = split_by_affinity(table, available, mask)
    assert split.aligned | split.unaligned | split.no_affinity == available
    assert split.aligned & split.unaligned == split.aligned & split.no_affinity == 0
    assert split.unaligned & split.no_affinity == 0
    for device_id in table.ids_of(split.aligned):
        assert any(node >= 0 and mask >> node & 1 for node in table.numa_nodes(device_id))


@given(
    st.integers(1, 6),
    st.sets(st.sampled_from("abcdef")),
    st.integers(0, 3),
    st.lists(st.sampled_from("abcdefxyz")),
    st.sets(st.sampled_from("abz")),
)
def test_every_choice_is_of_the_size_asked_and_holds_no_claimed_device(
    required: int, claimed: set[str], mask: int, preferred: list[str], reusable: set[str]
) -> None:
    reused = {DeviceId(name) for name in reusable & (claimed | {"z"})}
    try:
        chosen = choose(
            NUMA, required, claimed=ids(*claimed), reusable=tuple(reused), mask=mask, preferred=ids(*preferred)
        )
    except InsufficientDevices:
        assert len(set("abcdef") - claimed) + len(reused) < required
        return
    assert len(set(chosen)) == len(chosen) == required
    assert not {device for device in chosen if device in claimed} - reused


def test_s108_devices_are_aligned_elsewhere_or_nowhere() -> None:
    table = table_of(d1=(1,), d2=(1, 2), d3=(2,), d4=(2,), e=None, f=(), g=(-1,), h=(-1, 1))
    split = split_by_affinity(table, table.healthy, 1 << 2)
    assert table.ids_of(split.aligned) == ids("d2", "d3", "d4")
    assert table.ids_of(split.unaligned) == ids("d1", "h")
    assert table.ids_of(split.no_affinity) == ids("e", "f", "g")


@pytest.mark.parametrize("preferred", [(), ids("far1", "far2")], ids=["no-preference", "prefers-the-other-node"])
def test_s109_aligned_device_is_taken_even_if_it_is_not_enough(preferred: tuple[DeviceId, ...]) -> None:
    table = table_of(near=(0,), far1=(1,), far2=(1,))
    assert "near" in choose(table, 2, mask=1 << 0, preferred=preferred)
