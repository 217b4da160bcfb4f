"""Scenarios of several writers; names in brackets are tests of the same fact in structured-merge-diff, ``merge``."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.node.api.applying.elements import path_text
from plugbay.node.api.applying.managers import ManagerId, WriteOperation
from plugbay.node.api.applying.typed.types import (
    ATOMIC,
    DEDUCED,
    VALUE_SET,
    FieldType,
    MapType,
    Others,
    VersionedType,
    keyed,
    map_of,
    struct,
)
from plugbay.node.api.applying.typed.validation import check_type
from plugbay.node.api.applying.updating import ApplyConflicts, OwnedByManager, apply, update

ITEM = struct()
KIND = struct(
    list=keyed(struct(set=VALUE_SET), name=""), set=VALUE_SET, whole=ATOMIC, maps=map_of(map_of(struct())), free=DEDUCED
)


class State:
    """An object, and who owns what of it."""

    def __init__(self, kind: FieldType = KIND, *, others: dict[str, FieldType] | None = None) -> None:
        self.live: Any = None
        self.owned: OwnedByManager = {}
        self.types = {"v1": kind, **(others or {})}

    def applies(
        self, name: str, config: Any, *, force: bool = False, version: str = "v1", conflicts: list[str] | None = None
    ) -> State:
        kind = VersionedType(version, self.types)
        check_type(config, kind.type)
        who = ManagerId(name, WriteOperation.APPLY)
        try:
            self.live, self.owned = apply(self.live, config, self.owned, who, kind, is_forced=force)
        except ApplyConflicts as error:
            found = [f"{each.manager.name} {path_text(each.path)}" for each in error.conflicts]
            assert found == conflicts
        else:
            assert conflicts is None
        return self

    def updates(self, name: str, value: Any, *, version: str = "v1") -> State:
        who = ManagerId(name, WriteOperation.UPDATE, version)
        self.owned = update(self.live, value, self.owned, who, VersionedType(version, self.types))
        self.live = value
        return self

    def is_now(self, value: Any, **fields: list[str]) -> State:
        assert self.live == value
        found = {who.name: [path_text(path) for path in each.fields.paths()] for who, each in self.owned.items()}
        assert found == fields
        return self


def test_a_leaf_that_another_applied_is_a_conflict_until_forced() -> None:
    """[TestUpdateLeaf: apply_update_apply_conflict, apply_twice_dangling]"""
    state = State().applies("a", {"n": 1, "s": "x"}).is_now({"n": 1, "s": "x"}, a=[".n", ".s"])
    state.applies("b", {"n": 2}, conflicts=["a .n"]).is_now({"n": 1, "s": "x"}, a=[".n", ".s"])
    state.applies("b", {"n": 2}, force=True).is_now({"n": 2, "s": "x"}, a=[".s"], b=[".n"])


def test_an_update_takes_fields_without_asking() -> None:
    """[TestUpdateLeaf: apply_update_apply_no_conflict]"""
    state = State().applies("a", {"n": 1, "s": "x"}).updates("c", {"n": 2, "s": "x", "t": 3})
    state.is_now({"n": 2, "s": "x", "t": 3}, a=[".s"], c=[".n", ".t"])
    state.applies("a", {"n": 1, "s": "x"}, conflicts=["c .n"])
    state.applies("a", {"n": 1, "s": "x"}, force=True).is_now({"n": 1, "s": "x", "t": 3}, a=[".n", ".s"], c=[".t"])


def test_the_same_value_is_owned_together() -> None:
    """[TestMultipleAppliersSet, TestUpdateNested: co-ownership]"""
    state = State().applies("a", {"n": 1}).applies("b", {"n": 1}).is_now({"n": 1}, a=[".n"], b=[".n"])
    state.applies("a", {"s": "x"}).is_now({"n": 1, "s": "x"}, a=[".s"], b=[".n"])
    state.applies("b", {"t": 1}).is_now({"s": "x", "t": 1}, a=[".s"], b=[".t"])


def test_what_is_not_applied_any_more_goes_unless_others_own_it() -> None:
    """[TestMultipleAppliersSet: remove_one, remove_field_owned_by_updater]"""
    state = State().applies("a", {"set": ["x", "y"], "m": {"p": 1, "q": 2}})
    state.updates("u", {"set": ["x", "y"], "m": {"p": 5, "q": 2}})
    state.applies("a", {"set": ["y"]}).is_now({"set": ["y"], "m": {"p": 5}}, a=['.set[="y"]'], u=[".m.p"])
    state.applies("a", {}).is_now({"m": {"p": 5}}, u=[".m.p"])


def test_items_with_keys_belong_to_those_who_name_them() -> None:
    """[TestUpdateAssociativeLists, TestMultipleAppliersNestedType]"""
    state = State().applies("a", {"list": [{"name": "x", "v": 1}]}).applies("b", {"list": [{"name": "y", "v": 2}]})
    both = [{"name": "x", "v": 1}, {"name": "y", "v": 2}]
    of_x, of_y = ([f'.list[name="{name}"]{part}' for part in ("", ".name", ".v")] for name in "xy")
    state.is_now({"list": both}, a=of_x, b=of_y)
    state.applies("b", {"list": [{"name": "x", "v": 3}, {"name": "y", "v": 2}]}, conflicts=['a .list[name="x"].v'])
    state.applies("a", {}).is_now({"list": both[1:]}, b=of_y)


def test_an_item_stays_while_another_owns_something_in_it() -> None:
    """[TestMultipleAppliersNestedType: remove_one_keep_one_with_two_sub_items]"""
    state = State().applies("a", {"list": [{"name": "x", "v": 1}]}).applies("b", {"list": [{"name": "x", "w": 2}]})
    state.applies("a", {}).is_now(
        {"list": [{"name": "x", "w": 2}]}, b=['.list[name="x"]', '.list[name="x"].name', '.list[name="x"].w']
    )


def test_atomic_values_are_owned_whole() -> None:
    """[TestMultipleAppliersFieldRenameConversions, atomic]"""
    state = State().applies("a", {"whole": {"x": 1}}).applies("b", {"whole": {"y": 1}}, conflicts=["a .whole"])
    state.applies("b", {"whole": {"y": 1}}, force=True).is_now({"whole": {"y": 1}}, b=[".whole"])
    state.applies("b", {}).is_now(None)


def test_maps_in_maps_are_owned_by_key() -> None:
    """[TestMultipleAppliersRealConversion, TestMultipleAppliersDeepNested]"""
    state = State().applies("a", {"maps": {"p": {"x": {"v": 1}}}}).applies("b", {"maps": {"p": {"y": {"v": 2}}}})
    state.applies("a", {"maps": {"p": {}}})
    state.is_now({"maps": {"p": {"y": {"v": 2}}}}, a=[".maps.p"], b=[".maps.p", ".maps.p.y", ".maps.p.y.v"])


def test_a_deduced_value_can_change_its_form() -> None:
    """[TestDeduced: leaf to map and back]"""
    state = State(DEDUCED).applies("a", {"f": 1}).applies("b", {"f": {"g": 1}}, conflicts=["a .f"])
    state.applies("b", {"f": {"g": 1}}, force=True).is_now({"f": {"g": 1}}, b=[".f", ".f.g"])
    state.applies("a", {"f": [1]}, force=True)
    assert state.live == {"f": [1]}


def test_applying_again_changes_nothing() -> None:
    """[TestNoOp: twice]"""
    config = {"n": 1, "list": [{"name": "x", "set": ["a"]}], "free": {"a": {}}, "gone": None}
    state = State().applies("a", config)
    live, owned = state.live, state.owned
    state.applies("a", config)
    assert state.live is live
    assert state.owned == owned


def test_items_that_stand_twice_are_one_that_the_updater_owns() -> None:
    """[TestAddUpdateRemoveDuplicates]"""
    state = State().updates("u", {"set": ["x", "x", "y"]})
    state.is_now({"set": ["x", "x", "y"]}, u=[".set", '.set[="x"]', '.set[="y"]'])
    state.applies("a", {"set": ["x"]}, conflicts=['u .set[="x"]']).applies("a", {"set": ["x"]}, force=True)
    state.is_now({"set": ["x", "y"]}, a=['.set[="x"]'], u=[".set", '.set[="y"]'])


def test_managers_of_versions_that_are_gone_are_forgotten() -> None:
    """[TestObsoleteVersions, TestApplyObsoleteVersion]"""
    state = State(others={"v2": KIND}).applies("a", {"n": 1}, version="v2").updates("u", {"n": 1, "s": 1}, version="v2")
    del state.types["v2"]
    state.applies("b", {"n": 2}).is_now({"n": 2, "s": 1}, b=[".n"])
    state.applies("a", {}).is_now({"n": 2, "s": 1}, b=[".n"])


def test_an_applier_may_change_its_version() -> None:
    """[TestMultipleAppliersSet: different versions]"""
    state = State(others={"v2": KIND}).applies("a", {"n": 1, "m": 1}).applies("b", {"m": 1}, version="v2")
    state.applies("a", {"n": 1}, version="v2").is_now({"n": 1, "m": 1}, a=[".n"], b=[".m"])
    state.applies("b", {"n": 2}, version="v2", conflicts=["a .n"])


def test_a_part_that_became_atomic_is_owned_by_those_who_had_parts() -> None:
    """[TestGranularToAtomicSchemaChanges]"""
    granular = FieldType(map=MapType({"s": struct()}, Others.STRUCT))
    state = State(granular).applies("a", {"s": {"x": 1}}).applies("b", {"s": {"y": 1}})
    state.types["v1"] = FieldType(map=MapType({"s": FieldType(map=MapType(others=Others.STRUCT, is_atomic=True))}))
    state.applies("c", {"s": {"x": 2}}, conflicts=["a .s", "b .s"])
    state.applies("a", {"s": {"x": 2}}, conflicts=["b .s"])


@pytest.mark.parametrize("order", [("x", "y", "z"), ("z", "y", "x")])
def test_the_applier_sets_the_order_of_its_items(order: tuple[str, ...]) -> None:
    """[TestMultipleAppliersSet: order]"""
    items = [{"name": name} for name in order]
    state = State().applies("a", {"list": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}).applies("a", {"list": items})
    assert [each["name"] for each in state.live["list"]] == list(order)
