"""Kinds that nothing acts on are stored all the same, and say so."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from plugbay.node.api.resources import ApiResource
from plugbay.node.api.stored.kinds import INACTIVE
from tests.contract.rigs.api_calls import STRATEGIC, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import running_node
from tests.contract.rigs.one_of_each import CLAIM, FIELDS, POOL

DOCS: Final = Path(__file__).parents[3] / "docs/node.md"
SHOWN: Final[dict[str, list[object]]] = {
    "endpoints": ["a", "10.0.0.1:80"],
    "endpointslices": ["a", "IPv4", "80", "10.0.0.1"],
    "ingresses": ["a", "<none>", "*", "", "80"],
    "limitranges": ["a"],
    "networkpolicies": ["a", "<none>"],
    "persistentvolumeclaims": ["a", "Pending", "", "", "", "", "<unset>"],
    "persistentvolumes": ["a", "1Gi", "RWO", "Retain", "Pending", "", "", "<unset>", ""],
    "poddisruptionbudgets": ["a", "N/A", "N/A", 0],
    "resourceclaims": ["a", "pending"],
    "resourcequotas": ["a", "pods: 0/4", "limits.cpu: 0/2"],
    "resourceslices": ["a", "n1", "d.example.com", "n1"],
    "runtimeclasses": ["a", "crun"],
    "services": ["a", "ClusterIP", "<none>", "<none>", "80/TCP"],
    "storageclasses": ["a", "example.com/p", "Delete", "Immediate", "false"],
}
"""The first cells of their rows."""
WRONG: Final[list[tuple[str, Json, str]]] = [
    ("services", {"spec": {"ports": [{"port": 0}]}}, "spec.ports[0].port"),
    ("services", {"spec": {"ports": [{"port": 1}, {"port": 2, "name": "b"}]}}, "spec.ports[0].name"),
    ("services", {"spec": {}}, "spec.ports"),
    ("persistentvolumeclaims", {"spec": {}}, "spec.accessModes"),
    ("resourceclaims", {"spec": {"devices": {"requests": [{"name": "g"}]}}}, "spec.devices.requests[0]"),
    ("resourceslices", {"spec": {"driver": "d", "pool": POOL}}, "spec"),
    ("poddisruptionbudgets", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, "spec"),
]


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def place(resource: ApiResource) -> str:
    return f"{resource.base}/{'namespaces/default/' if resource.is_namespaced else ''}{resource.plural}"


def body(resource: ApiResource, **fields: object) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}, **fields}


async def test_all_of_them_are_stored_with_a_warning(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for resource in INACTIVE:
            made = await ask(
                "POST", place(resource), body(resource, **FIELDS.get(resource.plural, {})), fieldValidation="Strict"
            )
            assert made.status == 201, made.value
            assert made.warnings == [f'299 - "{resource.kind} is stored, and nothing on this node acts on it"']
            patched = await ask("PATCH", f"{place(resource)}/a", {"metadata": {"labels": {"k": "v"}}}, kind=STRATEGIC)
            assert patched.status == 200, patched.value
            [row] = (await ask("GET", place(resource), accept=TABLE)).value["rows"]
            wanted = SHOWN.get(resource.plural, ["a"])
            assert row["cells"][: len(wanted)] == wanted, resource.plural
        kept = {each: (await ask("GET", place(each))).value["items"] for each in INACTIVE}
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for resource in INACTIVE:
            assert (await ask("GET", place(resource))).value["items"] == kept[resource]
            assert (await ask("DELETE", f"{place(resource)}/a")).status == 200


async def test_what_makes_no_sense_is_refused(root: Path) -> None:
    rows = {each.plural: each for each in INACTIVE}
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for plural, fields, field in WRONG:
            refused = await ask("POST", place(rows[plural]), body(rows[plural], **fields))
            assert refused.status == 422, (plural, refused.value)
            assert field in [each["field"] for each in refused.value["details"]["causes"]]


async def test_a_claim_of_devices_keeps_its_specification(root: Path) -> None:
    [claims] = [each for each in INACTIVE if each.plural == "resourceclaims"]
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        made = (await ask("POST", place(claims), body(claims, spec=CLAIM))).value
        assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        made["spec"]["devices"]["requests"][0]["name"] = "h"
        assert (await ask("PUT", f"{place(claims)}/a", made)).status == 422
        allocated: Json = {"allocation": {"devices": {"results": []}}}
        status = await ask("PATCH", f"{place(claims)}/a/status", {"status": allocated}, kind=STRATEGIC)
        assert status.value["status"] == allocated
        assert (await ask("PATCH", f"{place(claims)}/a", {"status": None}, kind=STRATEGIC)).value["status"] == allocated


def test_the_docs_name_every_kind_that_nothing_acts_on() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [each.kind for each in INACTIVE if f"`{each.kind}`" not in text] == []
