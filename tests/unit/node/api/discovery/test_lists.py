"""What clients ask first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plugbay.node.api.discovery.lists import groups_response, resource_list, version_object, versions_response
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.kinds import BUILT_IN
from plugbay.ops.routing import Request

RESOURCES = ResourceTable(BUILT_IN)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


def ask(answer: Any, accept: str = "") -> tuple[str, Any]:
    response = answer(RESOURCES, Request("GET", "/", headers={"accept": accept}))
    return response.content_type, json.loads(response.body)


def test_plain_discovery_names_the_core_group() -> None:
    assert ask(versions_response)[1]["versions"] == ["v1"]
    listed = resource_list(RESOURCES, "v1")
    pods = {each["name"]: each for each in listed["resources"]}  # type: ignore[attr-defined]
    assert pods["pods"]["shortNames"] == ["po"]
    assert pods["pods"]["verbs"] == ["create", "delete", "deletecollection", "get", "list", "watch", "patch", "update"]
    assert pods["pods/log"] == {
        "name": "pods/log",
        "singularName": "",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["get"],
    }
    assert pods["nodes"]["namespaced"] is False


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_discovery_has_it_all_in_one(version: str) -> None:
    accept = f"{AGGREGATED.format(version)},application/json"
    content_type, answer = ask(versions_response, accept)
    assert content_type == AGGREGATED.format(version)
    assert (answer["kind"], answer["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    [core] = answer["items"]
    [v1] = core["versions"]
    assert {each["resource"] for each in v1["resources"]} >= {"pods", "nodes", "events", "namespaces"}
    [pods] = [each for each in v1["resources"] if each["resource"] == "pods"]
    assert (pods["scope"], pods["responseKind"]["kind"]) == ("Namespaced", "Pod")
    names = {each["subresource"] for each in pods["subresources"]}
    assert names == {"attach", "binding", "eviction", "exec", "log", "portforward", "status"}
    assert ask(groups_response, accept)[1]["kind"] == "APIGroupDiscoveryList"


def test_a_client_that_prefers_plain_discovery_gets_it() -> None:
    assert ask(versions_response, f"application/json,{AGGREGATED.format('v2')}")[1]["kind"] == "APIVersions"
    assert ask(versions_response, AGGREGATED.format("v9"))[1]["kind"] == "APIVersions"
    assert ask(groups_response)[1]["kind"] == "APIGroupList"


def test_the_version_is_a_kubernetes_one() -> None:
    version = version_object("0.1.0")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"] == "v1.36.0+plugbay-0.1.0"
