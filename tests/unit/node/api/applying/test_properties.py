"""Rules that hold for every object and every sequence of writes."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from plugbay.documents import Json
from plugbay.node.api.applying.elements import Path, field, key, value
from plugbay.node.api.applying.field_manager import FieldWriter, applied, tracked
from plugbay.node.api.applying.sets import FieldSet
from plugbay.node.api.applying.typed.builtin_types import builtin_type
from plugbay.node.api.applying.typed.comparing import Comparison, compare, fields_of
from plugbay.node.api.applying.typed.merging import merged
from plugbay.node.api.applying.updating import ApplyConflicts

NOW = "2026-01-02T03:04:05Z"
KIND = builtin_type("", "v1", "Pod")
NAMES = st.sampled_from(["a", "b", "c", "d<>", "é"])
TEXTS = st.sampled_from(["", "x", "y"])
MAPS = st.dictionaries(NAMES, TEXTS, max_size=3)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | TEXTS


def keyed(*keys: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = {name: st.sampled_from(["k", "l", "m"]) for name in keys}
    return st.lists(
        st.fixed_dictionaries(names, optional=parts),
        max_size=3,
        unique_by=lambda item: tuple(item[each] for each in keys),
    )


CONTAINERS = keyed("name", image=TEXTS, command=st.lists(TEXTS, max_size=2), env=keyed("name", value=TEXTS))
METADATA = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={"labels": MAPS, "annotations": MAPS, "finalizers": st.lists(NAMES, max_size=3, unique=True)},
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "hostname": TEXTS,
        "nodeSelector": MAPS,
        "volumes": keyed("name", emptyDir=MAPS),
    },
)
CONFIGS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": METADATA}, optional={"spec": SPECS}
)
STEPS = NAMES.map(field) | SCALARS.map(value) | st.dictionaries(NAMES, SCALARS, min_size=1, max_size=2).map(key)
PATHS = st.lists(st.lists(STEPS, min_size=1, max_size=3).map(tuple), max_size=6)


def apply(live: Json | None, config: Json, by: str, *, force: bool = True) -> Json:
    return applied(live, config, FieldWriter(by), KIND, is_forced=force, now=NOW)


def full(of: Any) -> Any:
    """Without empty mappings and lists."""
    if isinstance(of, list):
        return [full(each) for each in of]
    if isinstance(of, dict):
        return {name: each for name, inner in of.items() if (each := full(inner)) not in ({}, [])}
    return of


def without_managers(pod: Json) -> Json:
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    return pod | {"metadata": {name: each for name, each in metadata.items() if name != "managedFields"}}


@given(PATHS)
def test_sets_survive_their_written_form(paths: list[Path]) -> None:
    fields = FieldSet.of(paths)
    assert FieldSet.from_v1(fields.to_v1()) == fields
    assert FieldSet.of(fields.paths()) == fields


@given(PATHS, PATHS)
def test_sets_are_sets(paths: list[Path], others: list[Path]) -> None:
    one, other = FieldSet.of(paths), FieldSet.of(others)
    assert one | other == other | one == FieldSet.of([*paths, *others])
    assert set((one & other).paths()) == set(one.paths()) & set(other.paths())
    assert set((one - other).paths()) == set(one.paths()) - set(other.paths())
    assert (one - other) | (one & other) == one


@given(CONFIGS, CONFIGS)
def test_differences_are_those_of_the_fields(before: Json, after: Json) -> None:
    found = compare(before, after, KIND.type)
    assert not found.removed & (found.added | found.modified)
    assert not found.added & found.modified
    assert bool(found.removed or found.added or found.modified) == (before != after)
    assert merged(before, after, KIND.type) == merged(merged(before, after, KIND.type), after, KIND.type)


@given(CONFIGS, CONFIGS)
def test_applying_twice_changes_nothing(first: Json, config: Json) -> None:
    live = apply(apply(None, first, "a"), config, "b")
    assume("managedFields" in str(live))  # without any, the next apply makes one for what it finds
    assert apply(live, config, "b", force=False) == live


@given(CONFIGS, st.lists(CONFIGS, max_size=3))
def test_whoever_applied_last_by_force_has_what_it_wanted(config: Json, others: list[Json]) -> None:
    live: Json | None = None
    for index, other in enumerate(others):
        live = apply(live, other, f"m{index}")
    live = without_managers(apply(live, config, "me"))
    fields = fields_of(config, KIND.type)
    found = compare(live, config, KIND.type)
    assert not fields & (found.modified | found.added)


@given(CONFIGS, CONFIGS)
def test_managers_with_other_fields_never_conflict(one: Json, other: Json) -> None:
    names = {"apiVersion", "kind", "metadata"}
    ours = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    theirs = {**ours, "metadata": one["metadata"]}
    live = apply(apply(None, theirs, "a"), {**other, "metadata": {"name": "p"}}, "b", force=False)
    assert live.keys() <= names | {"spec"}
    assert apply(live, theirs, "a", force=False) == live


@given(CONFIGS, CONFIGS)
def test_without_a_managers_fields_the_object_is_as_if_it_had_never_written(base: Json, config: Json) -> None:
    """But for the order of lists, and for what is empty."""
    try:
        both = apply(apply(None, base, "a"), config, "b", force=False)
    except ApplyConflicts:
        return
    alone = apply(both, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}, "b", force=False)
    found = compare(full(without_managers(apply(None, base, "a"))), full(without_managers(alone)), KIND.type)
    assert found == Comparison()


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), CONFIGS), min_size=1, max_size=4))
def test_every_field_that_updates_change_has_one_owner(writes: list[tuple[str, Json]]) -> None:
    live: Json | None = None
    for who, pod in writes:
        live = tracked(live, pod, FieldWriter(who), KIND, now=NOW)
    assert live is not None
    metadata = live["metadata"]
    assert isinstance(metadata, dict)
    sets = [FieldSet.from_v1(entry["fieldsV1"]) for entry in metadata.get("managedFields", [])]
    owned = [path for each in sets for path in each.paths()]
    assert len(owned) == len(set(owned))
