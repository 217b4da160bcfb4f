"""Managed fields over the life of an object; names in brackets are upstream's tests (apimachinery, managedfields)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugbay.documents import Json
from plugbay.node.api.applying.configurations import conflict_error
from plugbay.node.api.applying.field_manager import LAST_APPLIED, FieldWriter, applied, settled, tracked
from plugbay.node.api.applying.managers import MAX_UPDATERS, Managers, UnreadableManagers
from plugbay.node.api.applying.typed.builtin_types import builtin_type
from plugbay.node.api.applying.typed.walking import MistypedValue
from plugbay.node.api.applying.updating import ApplyConflicts

NOW, LATER = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
CONFIG_MAP = builtin_type("", "v1", "ConfigMap")
POD = builtin_type("", "v1", "Pod")
DEPLOYMENT = builtin_type("apps", "v1", "Deployment")


def config(data: Json | None = None, /, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": data or {}}


def tracks(before: Json | None, after: Json, by: str = "u", *, sub: str = "", now: str = NOW) -> dict[str, Any]:
    return tracked(before, after, FieldWriter(by, sub), CONFIG_MAP, now=now)


def applies(live: Json | None, wanted: Json, by: str = "a", *, force: bool = False, now: str = NOW) -> dict[str, Any]:
    return applied(live, wanted, FieldWriter(by), CONFIG_MAP, is_forced=force, now=now)


def entries(value: dict[str, Any]) -> dict[str, Any]:
    return {f"{each['manager']} {each['operation']}": each["fieldsV1"] for each in value["metadata"]["managedFields"]}


def test_a_created_pod_is_owned_as_with_an_api_server() -> None:
    """Recorded of ``kubectl run``: the structures that every pod has are nobody's."""
    container = {"name": "c", "image": "i", "resources": {}, "env": [{"name": "E", "value": "1"}]}
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "1", "creationTimestamp": NOW,
           "labels": {"run": "p"}}, "spec": {"containers": [container], "restartPolicy": "Always"}}  # fmt: skip
    made = tracked(None, pod, FieldWriter("kubectl-run"), POD, now=NOW)
    assert v1_entries(made) == [
        {
            "manager": "kubectl-run",
            "operation": "Update",
            "apiVersion": "v1",
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:run": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:env": {".": {}, 'k:{"name":"E"}': {".": {}, "f:name": {}, "f:value": {}}},
                            "f:image": {},
                            "f:name": {},
                            "f:resources": {},
                        }
                    },
                    "f:restartPolicy": {},
                },
            },
        }
    ]


def v1_entries(value: Json) -> Any:
    metadata = value["metadata"]
    assert isinstance(metadata, dict)
    return metadata["managedFields"]


def test_a_created_deployment_is_owned_as_with_an_api_server() -> None:
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}}  # fmt: skip
    value: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    [entry] = v1_entries(tracked(None, value, FieldWriter("k"), DEPLOYMENT, now=NOW))
    assert entry["apiVersion"] == "apps/v1"
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}}},
            },
        }
    }


def test_an_update_of_the_same_client_is_one_entry() -> None:
    """[TestManagedFieldsUpdateDoesModifyTime, TestManagedFieldsUpdateDoesNotModifyTime...]"""
    made = tracks(None, config({"a": "1"}))
    same = tracks(made, made, now=LATER)
    assert same == made, "nothing changed, and so did no moment"
    changed = tracks(made, config({"a": "1", "b": "2"}), now=LATER)
    assert entries(changed) == {"u Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}}}
    assert changed["metadata"]["managedFields"][0]["time"] == LATER
    other = tracks(changed, config({"a": "2", "b": "2"}), "v", now=LATER)
    assert entries(other) == {"u Update": {"f:data": {".": {}, "f:b": {}}}, "v Update": {"f:data": {"f:a": {}}}}
    assert entries(tracks(other, config({"b": "2"}), "w")) == {"u Update": {"f:data": {".": {}, "f:b": {}}}}


def test_metadata_of_the_server_is_nobodys() -> None:
    """[TestApplyStripsFields, TestApplyDoesNotStripLabels]"""
    metadata = {"namespace": "n", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": NOW,
                "selfLink": "/"}  # fmt: skip
    assert "managedFields" not in tracks(None, {"kind": "ConfigMap", "metadata": metadata})["metadata"]
    done = applies(None, config(**metadata, labels={"x": "y"}))
    assert entries(done) == {"a Apply": {"f:data": {}, "f:metadata": {"f:labels": {"f:x": {}}}}}


def test_conflicts_are_told_in_an_api_servers_words() -> None:
    """[TestNewConflictError]"""
    made = tracks(applies(None, config({"a": "1"}, labels={"x": "y"})), config({"a": "2"}, labels={"x": "y"}), "ed")
    with pytest.raises(ApplyConflicts) as one:
        applies(made, config({"a": "3"}, labels={"x": "y"}))
    error = conflict_error(one.value.conflicts)
    assert (error.status, error.reason) == (409, "Conflict")
    assert error.message == 'Apply failed with 1 conflict: conflict with "ed" using v1: .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "ed" using v1', "field": ".data.a"}
    assert error.details == {"causes": [cause]}
    with pytest.raises(ApplyConflicts) as several:
        applies(made, config({"a": "3"}, labels={"x": "z"}), "b")
    assert conflict_error(several.value.conflicts).message == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .metadata.labels.x\n'
        'conflicts with "ed" using v1:\n- .data.a'
    )
    forced = applies(made, config({"a": "3"}, labels={"x": "z"}), "b", force=True)
    assert list(entries(forced)) == ["b Apply"], "whoever has nothing left is no manager"


def test_the_first_apply_meets_what_was_there_before() -> None:
    """[TestTakingOverManagedFieldsDuringApplyDoesNotModifyPreviousManagerTime, before-first-apply]"""
    made = config({"a": "1", "b": "2"})
    with pytest.raises(ApplyConflicts, match="before-first-apply"):
        applies(made, config({"a": "2"}))
    done = applies(made, config({"a": "1"}))
    assert entries(done) == {
        "a Apply": {"f:data": {"f:a": {}}},
        "before-first-apply Update": {"f:data": {".": {}, "f:a": {}, "f:b": {}}},
    }


def test_applying_the_same_again_changes_nothing() -> None:
    """[TestNoOpChanges]"""
    done = applies(None, config({"a": "1"}))
    assert applies(done, config({"a": "1"}), now=LATER) == done
    shared = applies(done, config({"a": "1"}), "b", now=LATER)
    assert shared["data"] == done["data"]
    assert list(entries(shared)) == ["b Apply", "a Apply"], "an entry that changed no value has no moment"
    gone = applies(shared, config(), "a", now=LATER)
    assert entries(gone) == {"a Apply": {"f:data": {}}, "b Apply": {"f:data": {"f:a": {}}}}


def test_what_an_applier_leaves_out_goes() -> None:
    done = applies(None, config({"a": "1", "b": "2"}, labels={"x": "y"}, finalizers=["f/f"]))
    less = applies(done, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})
    assert less["data"] == {"a": "1"}
    assert less["metadata"].keys() == {"name", "managedFields"}
    none = applies(less, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert "data" not in none
    assert "managedFields" not in none["metadata"]


@pytest.mark.parametrize("reset", [[], [{}]])
def test_managers_can_be_forgotten(reset: list[Json]) -> None:
    """[TestResetManagedFieldsEmptyList, TestResetManagedFieldsEmptyItem, TestResetManagedFieldsWithNonEmptyList...]"""
    made = applies(None, config({"a": "1"}))
    bare = tracks(made, config({"a": "1"}, managedFields=reset))
    assert "managedFields" not in bare["metadata"]
    assert "managedFields" not in tracks(bare, config({"a": "2"}), "v")["metadata"], "until something is applied"
    assert list(entries(applies(bare, config({"a": "1"})))) == ["a Apply", "before-first-apply Update"]


def test_clients_may_write_managers_and_may_leave_them_out() -> None:
    """[TestUpdateManagedFields..., TestUpdateUnreadableManagedFields, TestUpdateWithoutManagedFields]"""
    made = applies(None, config({"a": "1"}))
    kept = made["metadata"]["managedFields"]
    assert v1_entries(tracks(made, config({"a": "1"}))) == kept
    moved = [{**kept[0], "manager": "m"}]
    assert v1_entries(tracks(made, config({"a": "1"}, managedFields=moved))) == moved
    for broken in ([{**kept[0], "operation": "X"}], [{**kept[0], "fieldsType": "V2"}], [{**kept[0], "fieldsV1": 3}], 5):
        assert v1_entries(tracks(made, config({"a": "1"}, managedFields=broken))) == kept
    assert v1_entries(tracks(made, config({"a": "1"}, managedFields=moved), sub="status")) == kept


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "operation must be `Apply` or `Update`"),
        ({"operation": "Apply"}, "apiVersion must not be empty"),
        ({"operation": "Apply", "apiVersion": "v1"}, "missing fieldsType"),
        ({"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}, 'invalid fieldsType "V2"'),
        ({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"a": {}}}, "missing colon"),
        ("x", "operation must be"),
    ],
)
def test_broken_entries_are_told(entry: Any, problem: str) -> None:
    """[TestDecodeManagedFieldsErrors, TestHasFieldsType, TestHasAPIVersion, TestHasOperation]"""
    with pytest.raises(UnreadableManagers, match=f"managedFields entry 0: .*{problem.replace('`', '.')}"):
        Managers.of([entry])


def test_entries_are_read_and_written_in_order() -> None:
    """[TestRoundTripManagedFields, TestSortEncodedManagedFields]"""

    def entry(manager: str, operation: str, time: str = "", sub: str = "") -> Json:
        who: Json = {"manager": manager, "operation": operation, "apiVersion": "v1"}
        what: Json = {"fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
        return who | ({"time": time} if time else {}) | what | ({"subresource": sub} if sub else {})

    ordered = [entry("z", "Apply"), entry("a", "Apply", NOW), entry("b", "Apply", NOW), entry("a", "Apply", LATER),
               entry("a", "Update", NOW), entry("a", "Update", NOW, "status"), entry("0", "Update", LATER)]  # fmt: skip
    del ordered[3]
    assert Managers.of(ordered[::-1]).to_v1() == ordered


def test_the_oldest_updaters_become_one() -> None:
    """[TestCapManagersManagerMergesEntries]"""
    value = tracks(None, config({"k": "0"}), "u0", now="2026-01-02T03:04:00Z")
    for index in range(1, MAX_UPDATERS + 3):
        data = {**value["data"], f"k{index}": "0"}
        value = tracks(value, config(data), f"u{index}", now=f"2026-01-02T03:04:{index:02}Z")
    found = entries(value)
    assert len(found) == MAX_UPDATERS
    assert found["ancient-changes Update"] == {"f:data": {".": {}, "f:k": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}
    assert "u4 Update" in found


def last_applied(value: Json) -> dict[str, str]:
    return {LAST_APPLIED: json.dumps(value)}


def test_kubectl_takes_over_what_it_applied_without_the_server() -> None:
    """[TestApplyUsingLastAppliedAnnotation, TestServiceApply]"""
    before = config({"a": "1", "b": "2"})
    live = tracks(
        None, {**before, "metadata": {"name": "c", "annotations": last_applied(before)}}, "kubectl-client-side-apply"
    )
    with pytest.raises(ApplyConflicts):
        applies(live, config({"a": "9"}), "someone")
    done = applies(live, config({"a": "9"}), "kubectl")
    assert done["data"] == {"a": "9", "b": "2"}
    noted = json.loads(done["metadata"]["annotations"][LAST_APPLIED])
    assert noted == config({"a": "9"})
    assert done["metadata"]["annotations"][LAST_APPLIED].endswith("}\n")
    edited = tracks(done, done | {"data": {"a": "9", "b": "3"}}, "edit")
    with pytest.raises(ApplyConflicts) as refusal:
        applies(edited, config({"a": "9", "b": "4"}), "kubectl")
    assert [str(each.manager) for each in refusal.value.conflicts] == ['"edit" using v1']


@pytest.mark.parametrize("note", ["", "no JSON", "[]", '{"apiVersion": "v2"}', '{"apiVersion": "v1", "data": []}'])
def test_a_broken_note_of_the_last_apply_allows_nothing(note: str) -> None:
    """[TestApplyUsingLastAppliedAnnotation: invalid]"""
    live = tracks(None, config({"a": "1"}, annotations={LAST_APPLIED: note}), "x")
    if note == '{"apiVersion": "v1", "data": []}':
        assert applies(live, config({"b": "1"}), "kubectl")["data"] == {"a": "1", "b": "1"}
    with pytest.raises(ApplyConflicts):
        applies(live, config({"a": "9"}), "kubectl")


def test_a_configuration_of_another_type_is_refused() -> None:
    with pytest.raises(MistypedValue, match="duplicate entries"):
        applies(None, config(finalizers=["a/b", "a/b"]))


def test_moments_alone_are_no_change() -> None:
    """[TestIgnoreManagedFieldsTimestampsTransformer]"""
    made = tracks(None, config({"a": "1"}))
    later = tracks(None, config({"a": "1"}), now=LATER)
    assert settled(made, later) is made
    assert settled(made, tracks(None, config({"a": "1"}), "v")) != made
    assert settled(made, tracks(None, config({"a": "2"}))) != made


def test_status_has_managers_of_its_own() -> None:
    """[TestUpdateSubresource...]"""
    made = tracks(None, config({"a": "1"}))
    both = tracks(made, made | {"status": {"ok": True}}, "u", sub="status", now=LATER)
    assert [each.get("subresource", "") for each in v1_entries(both)] == ["", "status"]
    with pytest.raises(ApplyConflicts) as refusal:
        applies(both, config({"a": "1"}) | {"status": {"ok": False}})
    assert str(refusal.value.conflicts[0].manager) == '"u" with subresource "status" using v1'
