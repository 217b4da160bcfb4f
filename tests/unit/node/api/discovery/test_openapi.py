"""The description of the API is what kubectl looks for in it."""

from __future__ import annotations

import re
from typing import Any

from plugbay.node.api.discovery.openapi import openapi_document, openapi_index
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.kinds import BUILT_IN

RESOURCES = ResourceTable(BUILT_IN)


def test_the_index_leads_to_a_document_for_each_group() -> None:
    paths: Any = openapi_index(RESOURCES)["paths"]
    assert {"api/v1", "apis/coordination.k8s.io/v1"} <= set(paths)
    assert re.fullmatch(r"/openapi/v3/api/v1\?hash=[0-9A-F]{32}", paths["api/v1"]["serverRelativeURL"])
    assert openapi_index(RESOURCES) == openapi_index(RESOURCES)


def test_a_patch_of_a_pod_can_be_validated_by_the_server() -> None:
    document: Any = openapi_document(RESOURCES, "/api/v1")
    operation = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {"fieldValidation", "dryRun"} <= {each["name"] for each in operation["parameters"]}
    assert "application/strategic-merge-patch+json" in operation["requestBody"]["content"]


def test_fields_of_a_pod_are_described() -> None:
    schemas: Any = openapi_document(RESOURCES, "/api/v1")["components"]
    pod = schemas["schemas"]["io.k8s.api.core.v1.Pod"]
    spec = pod["properties"]["spec"]["properties"]
    assert spec["restartPolicy"]["enum"] == ["Always", "OnFailure", "Never"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    env = spec["containers"]["items"]["properties"]["env"]
    assert env["x-kubernetes-patch-merge-key"] == "name"
    assert spec["volumes"]["items"]["properties"]["nfs"]["description"] == "Refused by this node."


def test_every_reference_leads_somewhere() -> None:
    document: Any = openapi_document(RESOURCES, "/api/v1")
    references = re.findall(r"'#/components/schemas/([^']+)'", str(document))
    assert references
    assert set(references) <= set(document["components"]["schemas"])


def test_every_operation_names_its_parameters_and_answers() -> None:
    for base in {each.base for each in RESOURCES}:
        paths: Any = openapi_document(RESOURCES, base)["paths"]
        for path, item in paths.items():
            places = {each["name"] for each in item.get("parameters", ())}
            assert places == set(re.findall(r"{(.*?)}", path))
            for operation in (value for name, value in item.items() if name != "parameters"):
                assert {"200", "default"} <= operation["responses"].keys()


def test_a_list_of_pods_may_start_at_a_version() -> None:
    document: Any = openapi_document(RESOURCES, "/api/v1")
    operation = document["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"]
    assert "resourceVersion" in {each["name"] for each in operation["parameters"]}


def test_every_operation_has_a_name_of_its_own() -> None:
    names: list[str] = []
    for base in {each.base for each in RESOURCES}:
        paths: Any = openapi_document(RESOURCES, base)["paths"]
        names += [each["operationId"] for item in paths.values() for key, each in item.items() if key != "parameters"]
    assert len(names) == len(set(names))
    assert {"listCoreV1PodForAllNamespaces", "patchAppsV1NamespacedDeploymentScale"} <= set(names)


def test_lists_and_scales_are_described() -> None:
    document: Any = openapi_document(RESOURCES, "/apis/apps/v1")
    path = "/apis/apps/v1/namespaces/{namespace}/deployments"
    listed = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    assert listed["schema"]["$ref"].endswith(".DeploymentList")
    scale = document["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"]
    assert scale["properties"]["spec"]["properties"]["replicas"] == {"type": "integer"}
    assert document["paths"][f"{path}/{{name}}/scale"].keys() == {"get", "patch", "put", "parameters"}
