"""Kinds that clients define: served, checked, described and ended as an API server does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.contract.rigs.api_calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import DEADLINE_S, running_node

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP: Final = "/apis/example.com"
GOPHERS: Final = f"{GROUP}/v1/namespaces/default/gophers"
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What the gopher is to be.",
            "required": ["depth"],
            "properties": {
                "depth": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["dig", "rest"], "default": "dig"},
                "port": {"x-kubernetes-int-or-string": True},
                "burrows": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
COLUMNS: Final = [
    {"name": "Depth", "type": "integer", "jsonPath": ".spec.depth"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def definition(*versions: str, plural: str = "gophers", kind: str = "Gopher", **spec: Any) -> Json:
    served = [
        {
            "name": name,
            "served": True,
            "storage": name == (versions or ("v1",))[0],
            "schema": {"openAPIV3Schema": SCHEMA},
            "subresources": {"status": {}},
            "additionalPrinterColumns": COLUMNS,
        }
        for name in versions or ("v1",)
    ]
    names = {"plural": plural, "kind": kind, "shortNames": ["go"], "categories": ["animals"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served, **spec},
    }


def gopher(name: str = "g", version: str = "v1", **spec: Any) -> Json:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Gopher",
        "metadata": {"name": name},
        "spec": {"depth": 3, **spec},
    }


async def until(ask: ApiCaller, path: str, wanted: Callable[[Any], bool]) -> Any:
    """The answer at ``path`` as soon as it is as wanted; changes of definitions wake it."""
    async with asyncio.timeout(DEADLINE_S):
        while not wanted(found := (await ask("GET", path)).value):
            version = (await ask("GET", DEFINITIONS)).value["metadata"]["resourceVersion"]
            await ask("GET", DEFINITIONS, watch="true", resourceVersion=version, timeoutSeconds="1")
        return found


def conditions(value: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in value.get("status", {}).get("conditions", [])}


async def test_a_kind_is_served_as_soon_as_it_is_defined(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        assert (await ask("GET", GROUP)).status == 404
        before = (await ask("GET", "/openapi/v3")).value["paths"]
        assert (await ask("POST", DEFINITIONS, definition())).status == 201
        made = await ask("POST", GOPHERS, gopher())
        assert (made.status, made.value["spec"], made.value["metadata"]["generation"]) == (
            201,
            {"depth": 3, "mode": "dig"},
            1,
        )
        found = await until(ask, f"{DEFINITIONS}/gophers.example.com", lambda value: bool(conditions(value)))
        assert conditions(found) == {"NamesAccepted": "True", "Established": "True"}
        [listed] = [each for each in (await ask("GET", f"{GROUP}/v1")).value["resources"] if each["name"] == "gophers"]
        assert (listed["shortNames"], listed["categories"], listed["kind"]) == (["go"], ["animals"], "Gopher")
        assert "example.com" in [each["name"] for each in (await ask("GET", "/apis")).value["groups"]]
        table = (await ask("GET", GOPHERS, accept=TABLE)).value
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Depth", "Phase", "Age"]
        assert table["rows"][0]["cells"][:3] == ["g", 3, None]
        paths = (await ask("GET", "/openapi/v3")).value["paths"]
        assert paths.keys() - before.keys() == {"apis/example.com/v1"}
        document = (await ask("GET", "/openapi/v3/apis/example.com/v1")).value
        schema = document["components"]["schemas"]["io.k8s.api.example.com.v1.Gopher"]
        assert schema["properties"]["spec"]["description"] == "What the gopher is to be."


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"depth": "x"}, 'spec.depth: Invalid value: "string": spec.depth in body must be of type integer: "string"'),
        ({"depth": 0}, "spec.depth: Invalid value: 0: spec.depth in body should be greater than or equal to 1"),
        ({"depth": None}, "spec.depth"),
        ({"mode": "fly"}, 'spec.mode: Unsupported value: "fly": supported values: "dig", "rest"'),
        ({"port": True}, "spec.port: Invalid value"),
        ({"burrows": ["A"]}, "spec.burrows[0]: Invalid value: \"A\": spec.burrows[0] in body should match '^[a-z]+$'"),
        ({"burrows": "a"}, 'spec.burrows in body must be of type array: "string"'),
    ],
)
async def test_objects_are_held_against_the_schema(root: Path, spec: Json, message: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        refused = await ask("POST", GOPHERS, gopher(**spec))
        assert refused.status == 422
        assert message in refused.value["message"]
        assert refused.value["message"].startswith('Gopher.example.com "g" is invalid: ')


async def test_unknown_fields_are_left_out_and_free_ones_kept(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        wanted = gopher(wings=2, free={"a": {"b": 1}}, port="http")
        refused = await ask("POST", GOPHERS, wanted, fieldValidation="Strict")
        assert (refused.status, 'unknown field "spec.wings"' in refused.value["message"]) == (400, True)
        made = await ask("POST", GOPHERS, wanted)
        assert made.value["spec"] == {"depth": 3, "free": {"a": {"b": 1}}, "port": "http", "mode": "dig"}
        assert made.warnings == ['299 - "unknown field \\"spec.wings\\""']


async def test_status_is_written_apart_and_changes_are_counted(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        made = (await ask("POST", GOPHERS, gopher() | {"status": {"phase": "x"}})).value
        assert "status" not in made
        assert (await ask("PUT", f"{GOPHERS}/g", gopher())).status == 422, "it has to name the state that it changes"
        changed = (
            await ask("PUT", f"{GOPHERS}/g/status", made | {"status": {"phase": "Up"}, "spec": {"depth": 9}})
        ).value
        assert (changed["status"], changed["spec"]["depth"], changed["metadata"]["generation"]) == (
            {"phase": "Up"},
            3,
            1,
        )
        deeper = (await ask("PATCH", f"{GOPHERS}/g", {"spec": {"depth": 4}, "status": None}, kind=MERGE)).value
        assert (deeper["status"], deeper["metadata"]["generation"]) == ({"phase": "Up"}, 2)
        replaced = [{"op": "replace", "path": "/spec/depth", "value": 5}]
        assert (await ask("PATCH", f"{GOPHERS}/g", replaced, kind=JSON_PATCH)).value["spec"]["depth"] == 5
        assert (await ask("PATCH", f"{GOPHERS}/g", {}, kind=STRATEGIC)).status == 415


async def test_configurations_are_applied_by_the_server(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        made = await ask("PATCH", f"{GOPHERS}/g", gopher(), kind=APPLY, fieldManager="a")
        assert (made.status, made.value["spec"]["depth"]) == (201, 3)
        [entry] = made.value["metadata"]["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("a", "Apply")
        conflict = await ask("PATCH", f"{GOPHERS}/g", gopher(depth=4), kind=APPLY, fieldManager="b")
        assert (conflict.status, conflict.value["details"]["causes"][0]["field"]) == (409, ".spec.depth")
        forced = await ask("PATCH", f"{GOPHERS}/g", gopher(depth=4), kind=APPLY, fieldManager="b", force="true")
        assert forced.value["spec"]["depth"] == 4


async def test_every_served_version_shows_the_same_objects(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition("v1beta1", "v2", "v1"))
        group = (await ask("GET", GROUP)).value
        assert [each["version"] for each in group["versions"]] == ["v2", "v1", "v1beta1"]
        await ask("POST", GOPHERS, gopher())
        seen = (await ask("GET", GOPHERS.replace("/v1/", "/v2/"))).value["items"]
        assert [(each["apiVersion"], each["spec"]["depth"]) for each in seen] == [("example.com/v2", 3)]
        path = f"{DEFINITIONS}/gophers.example.com"
        current = await until(ask, path, lambda value: bool(conditions(value)))
        versions = [each | {"served": each["name"] == "v1"} for each in current["spec"]["versions"]]
        assert (await ask("PATCH", path, {"spec": {"versions": versions}}, kind=MERGE)).status == 200
        assert [each["version"] for each in (await ask("GET", GROUP)).value["versions"]] == ["v1"]
        assert (await ask("GET", GOPHERS.replace("/v1/", "/v2/"))).status == 404


async def test_a_definition_ends_with_its_objects(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        held = gopher()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await ask("POST", GOPHERS, held)
        await ask("POST", GOPHERS, gopher("h"))
        assert "deletionTimestamp" in (await ask("DELETE", f"{DEFINITIONS}/gophers.example.com")).value["metadata"]
        await until(ask, GOPHERS, lambda value: [each["metadata"]["name"] for each in value["items"]] == ["g"])
        watches = [
            asyncio.create_task(ask("GET", GOPHERS, watch="true", allowWatchBookmarks=marked))
            for marked in ("true", "false")
        ]
        assert (await ask("PATCH", f"{GOPHERS}/g", {"metadata": {"finalizers": None}}, kind=MERGE)).status == 200
        await until(ask, DEFINITIONS, lambda value: not value["items"])
        for answer in await asyncio.gather(*watches):
            assert answer.status in (200, 404), "a watch ends with its kind"
        assert (await ask("GET", GOPHERS)).status == 404
        assert (await ask("GET", GROUP)).status == 404


async def test_a_restarted_node_serves_what_was_defined(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        made = (await ask("POST", GOPHERS, gopher())).value
    async with running_node(root) as node:
        assert (await ApiCaller(node.config.control_socket)("GET", f"{GOPHERS}/g")).value == made


async def test_names_belong_to_the_definition_that_came_first(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition())
        await until(ask, f"{DEFINITIONS}/gophers.example.com", lambda value: bool(conditions(value)))
        await ask("POST", DEFINITIONS, definition(plural="marmots"))
        path = f"{DEFINITIONS}/marmots.example.com"
        found = await until(ask, path, lambda value: bool(conditions(value)))
        assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}
        assert (await ask("GET", f"{GROUP}/v1/marmots")).status == 404
        await ask("DELETE", f"{DEFINITIONS}/gophers.example.com")
        await until(ask, path, lambda value: conditions(value)["Established"] == "True")
        assert (await ask("GET", f"{GROUP}/v1/marmots")).status == 200


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "World"}, "spec.scope"),
        ({"group": "other.com"}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "spec.versions[0].schema.openAPIV3Schema"),
        (
            {
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}},
                    }
                ]
            },
            "spec.versions[0].schema.openAPIV3Schema.properties[a].type",
        ),
    ],
)
async def test_definitions_that_cannot_be_served_are_refused(root: Path, change: Json, field: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        refused = await ask("POST", DEFINITIONS, definition(**change))
        assert refused.status == 422
        assert field in [each["field"] for each in refused.value["details"]["causes"]]


async def test_rules_that_are_not_evaluated_are_told(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        ruled = definition()
        rule = {"rule": "self.spec.depth > 1"}
        schema = {**SCHEMA, "x-kubernetes-validations": [rule]}
        ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
        made = await ask("POST", DEFINITIONS, ruled)
        assert made.warnings == ['299 - "x-kubernetes-validations are stored, and this node does not evaluate them"']


async def test_numbers_and_flags_select_objects_in_lists_and_watches(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        wanted = definition()
        [version] = wanted["spec"]["versions"]
        fields = {"n": {"type": "integer"}, "b": {"type": "boolean"}}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = fields
        version["selectableFields"] = [{"jsonPath": ".spec.n"}, {"jsonPath": ".spec.b"}]
        assert (await ask("POST", DEFINITIONS, wanted)).status == 201
        for name, spec in (("a", {"n": 3, "b": True}), ("b", {"n": 0, "b": False}), ("c", {})):
            body = {"apiVersion": "example.com/v1", "kind": "Gopher", "metadata": {"name": name}, "spec": spec}
            assert (await ask("POST", GOPHERS, body)).status == 201
        for selector, names in (
            ("spec.n=3", "a"),
            ("spec.b=true", "a"),
            ("spec.b!=true", "bc"),
            ("spec.n=0", "b"),
            ("spec.n=", "c"),
        ):
            listed = (await ask("GET", GOPHERS, fieldSelector=selector)).value["items"]
            assert "".join(each["metadata"]["name"] for each in listed) == names, selector
            query = {"watch": "true", "timeoutSeconds": "1", "fieldSelector": selector}
            watched = (await ask("GET", GOPHERS, **query)).value
            told = watched if isinstance(watched, list) else [watched]
            assert "".join(each["object"]["metadata"]["name"] for each in told) == names, selector


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "Required value"),
        (".spec.wings", 'Invalid value: ".spec.wings": is an invalid path: does not refer to a valid field'),
        (".spec.free", "must point to a field of type string, boolean or integer"),
        (".metadata.name", "must not point to fields in metadata"),
        ("spec.mode", "is an invalid path"),
        (".", "must point to a field of type string, boolean or integer"),
    ],
)
async def test_a_field_that_no_selector_can_name_is_refused(root: Path, path: str, problem: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        wanted = definition()
        wanted["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": path}]
        refused = await ask("POST", DEFINITIONS, wanted)
        assert refused.status == 422
        [cause] = refused.value["details"]["causes"]
        assert cause["field"] == "spec.versions[0].selectableFields[0].jsonPath"
        assert problem in cause["message"]


async def test_formats_and_names_of_objects_are_checked(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        wanted = definition()
        fields = {"ip": {"type": "string", "format": "ipv4"}, "odd": {"type": "string", "format": "burrow"}}
        properties = {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
            "spec": {"type": "object", "properties": fields},
        }
        wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": properties}
        made = await ask("POST", DEFINITIONS, wanted)
        assert (made.status, made.warnings) == (201, ['299 - "unrecognized format \\"burrow\\""'])
        body = gopher("long", ip="10.0.0", odd="x") | {"spec": {"ip": "10.0.0", "odd": "x"}}
        refused = await ask("POST", GOPHERS, body)
        told = {each["field"]: each["message"] for each in refused.value["details"]["causes"]}
        assert told.keys() == {"metadata.name", "spec.ip"}
        assert told["spec.ip"] == 'Invalid value: "10.0.0": spec.ip in body must be of type ipv4: "10.0.0"'
        assert (await ask("POST", GOPHERS, gopher("go") | {"spec": {"ip": "10.0.0.1"}})).status == 201


async def test_columns_show_what_their_paths_lead_to(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        wanted = definition()
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        columns = {
            "Last": ("string", ".spec.conditions[-1:].type"),
            "Ready": ("string", '.spec.conditions[?(@.type=="Ready")].status'),
            "Deep": ("string", "..deep"),
            "List": ("string", ".spec.list"),
            "Map": ("string", ".spec.map"),
            "Flag": ("string", ".spec.flag"),
            "Number": ("integer", ".spec.number"),
            "Text": ("integer", ".spec.map.a"),
            "Odd": ("string", ".spec.list[?(@ =~ 1)]"),
        }
        [version] = wanted["spec"]["versions"]
        version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": anything}}
        version["additionalPrinterColumns"] = [
            {"name": name, "type": kind, "jsonPath": path} for name, (kind, path) in columns.items()
        ]
        made = await ask("POST", DEFINITIONS, wanted)
        assert made.status == 201
        why = "is not a JSONPath that this node knows, and the column stays empty"
        assert made.warnings == [f'299 - "column Odd: .spec.list[?(@ =~ 1)] {why}"']
        conditions = [{"type": "Made", "status": "True"}, {"type": "Ready", "status": "False", "deep": "down"}]
        spec = {"conditions": conditions, "list": [1, "<"], "map": {"b": None, "a": "x"}, "flag": True, "number": 2.0}
        await ask("POST", GOPHERS, gopher() | {"spec": spec})
        [row] = (await ask("GET", GOPHERS, accept=TABLE)).value["rows"]
        assert row["cells"] == [
            *("g", "Ready", "False", "down", '[1,"\\u003c"]', '{"a":"x","b":null}', "true", 2, None, None)
        ]


@pytest.mark.parametrize(
    ("approval", "status"),
    [
        (None, 422),
        ("by a friend", 422),
        ("https://github.com/kubernetes/kubernetes/pull/1", 201),
        ("unapproved, for a test", 201),
    ],
)
async def test_definitions_in_the_groups_of_kubernetes_say_that_they_may(
    root: Path, approval: str | None, status: int
) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        wanted = definition(group="gophers.k8s.io")
        wanted["metadata"]["name"] = "gophers.gophers.k8s.io"
        if approval is not None:
            wanted["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
        made = await ask("POST", DEFINITIONS, wanted)
        assert made.status == status
        if status == 422:
            assert "metadata.annotations[api-approved.kubernetes.io]" in made.value["message"]


async def test_a_version_in_which_objects_may_be_stored_stays(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, definition("v1", "v2"))
        path = f"{DEFINITIONS}/gophers.example.com"
        current = await until(ask, path, lambda value: bool(conditions(value)))
        assert current["status"]["storedVersions"] == ["v1"]
        without = [each | {"storage": True} for each in current["spec"]["versions"] if each["name"] == "v2"]
        refused = await ask("PATCH", path, {"spec": {"versions": without}}, kind=MERGE)
        assert refused.status == 422
        assert "status.storedVersions[0]: Invalid value" in refused.value["message"]
        moved = [each | {"storage": each["name"] == "v2"} for each in current["spec"]["versions"]]
        assert (await ask("PATCH", path, {"spec": {"versions": moved}}, kind=MERGE)).status == 200
        await until(ask, path, lambda value: value["status"]["storedVersions"] == ["v1", "v2"])
        migrated = {"status": {"storedVersions": ["v2"]}}
        assert (await ask("PATCH", f"{path}/status", migrated, kind=MERGE)).status == 200
        assert (await ask("PATCH", path, {"spec": {"versions": without}}, kind=MERGE)).status == 200


def scaled(**paths: str) -> Json:
    wanted = definition()
    [version] = wanted["spec"]["versions"]
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.depth",
        "statusReplicasPath": ".status.there",
        "labelSelectorPath": ".status.selector",
    } | paths
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"] | {
        "x-kubernetes-preserve-unknown-fields": True
    }
    properties = SCHEMA["properties"] | {"status": status}
    version["schema"] = {"openAPIV3Schema": SCHEMA | {"properties": properties}}
    return wanted


async def test_custom_resources_are_scaled(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        assert (await ask("POST", DEFINITIONS, scaled())).status == 201
        resources = (await ask("GET", f"{GROUP}/v1")).value["resources"]
        [listed] = [each for each in resources if each["name"] == "gophers/scale"]
        assert (listed["kind"], listed["group"], listed["version"]) == ("Scale", "autoscaling", "v1")
        made = (await ask("POST", GOPHERS, gopher())).value
        status = {"there": 2, "selector": "app=gopher"}
        assert (await ask("PUT", f"{GOPHERS}/g/status", made | {"status": status})).status == 200
        scale = (await ask("GET", f"{GOPHERS}/g/scale")).value
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})
        assert scale["status"] == {"replicas": 2, "selector": "app=gopher"}
        table = (await ask("GET", f"{GOPHERS}/g/scale", accept=TABLE)).value
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
        assert table["rows"][0]["cells"][:3] == ["g", 3, 2]
        changed = await ask("PATCH", f"{GOPHERS}/g/scale", {"spec": {"replicas": 5}}, kind=MERGE)
        assert (changed.status, changed.value["spec"]) == (200, {"replicas": 5})
        assert (await ask("GET", f"{GOPHERS}/g")).value["spec"]["depth"] == 5
        assert (await ask("PUT", f"{GOPHERS}/g/scale", scale)).status == 409, "it has been changed since"
        for meant, code in (({"name": "h"}, 400), ({"namespace": "lab"}, 400), ({"uid": "1"}, 409), ({}, 200)):
            wanted = {"metadata": meant, "spec": {"replicas": 6}}
            assert (await ask("PUT", f"{GOPHERS}/g/scale", wanted)).status == code
        for number in (-1, 10):
            refused = await ask("PATCH", f"{GOPHERS}/g/scale", {"spec": {"replicas": number}}, kind=MERGE)
            assert refused.status == 422, "neither the scale nor the schema allows it"
        assert (await ask("POST", f"{GOPHERS}/g/scale", scale)).status == 405
        assert (await ask("GET", f"{GOPHERS}/none/scale")).status == 404


@pytest.mark.parametrize(
    ("name", "path", "problem"),
    [
        ("specReplicasPath", "", "Required value"),
        ("specReplicasPath", ".status.n", "should be a json path under .spec"),
        ("specReplicasPath", "spec.n", "must be a simple json path starting with ."),
        ("statusReplicasPath", ".status", "should be a json path under .status"),
        ("labelSelectorPath", ".metadata.name", "should be a json path under either .spec or .status"),
    ],
)
async def test_a_scale_without_its_numbers_is_refused(root: Path, name: str, path: str, problem: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        refused = await ask("POST", DEFINITIONS, scaled(**{name: path}))
        [cause] = refused.value["details"]["causes"]
        assert cause["field"] == f"spec.versions[0].subresources.scale.{name}"
        assert problem in cause["message"]


async def test_a_scale_of_an_object_without_the_number_is_refused(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", DEFINITIONS, scaled(specReplicasPath=".spec.free.n"))
        await ask("POST", GOPHERS, gopher())
        refused = await ask("GET", f"{GOPHERS}/g/scale")
        assert (refused.status, refused.value["message"]) == (
            400,
            'the spec replicas field ".spec.free.n" does not exist',
        )
        refused = await ask("POST", GOPHERS, gopher("h", free={"n": "many"}))
        assert refused.value["details"]["causes"][0]["field"] == "spec.free.n"
        changed = await ask("PATCH", f"{GOPHERS}/g/scale", {"spec": {"replicas": 5}}, kind=MERGE)
        assert (changed.status, (await ask("GET", f"{GOPHERS}/g")).value["spec"]["free"]) == (200, {"n": 5})
