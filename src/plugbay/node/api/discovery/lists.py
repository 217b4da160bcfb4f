"""Discovery: versions, groups, and the kinds of objects, which a client asks for first. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/v1/types.go`` (APIGroupList, APIResourceList),
``api/apidiscovery``.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.resources import ApiResource, ResourceTable
from plugbay.ops.routing import Request, Response, json_response

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
_AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
_PATHS: Final = ("/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
KUBERNETES: Final = ("1", "36")
"""The release whose API this is."""


def version_object(version: str) -> Json:
    """The answer to ``/version``; ``version`` is plugbay's."""
    major, minor = KUBERNETES
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.0+plugbay-{version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": "linux",
    }


def paths_object(resources: ResourceTable) -> Json:
    """The answer to ``/``: the paths at which a client can look further."""
    groups = sorted({each.group for each in resources if each.group})
    served = sorted({each.base for each in resources})
    named = [f"/apis/{name}" for name in groups]
    return {"paths": sorted({"/api", "/apis", *named, *served, *_PATHS})}


def versions_response(resources: ResourceTable, request: Request) -> Response:
    """The answer to ``/api``: the versions of the core group."""
    own = resources.of_group("")
    if version := _aggregated_version(request):
        return _aggregated(own, version)
    return json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})


def groups_response(resources: ResourceTable, request: Request) -> Response:
    """The answer to ``/apis``: all other groups."""
    others = [resource for resource in resources if resource.group]
    if version := _aggregated_version(request):
        return _aggregated(others, version)
    groups = [group_object(resources, name) for name in sorted({each.group for each in others})]
    return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def group_object(resources: ResourceTable, name: str) -> Json:
    """The APIGroup of a group that there is: its versions, the preferred one first."""
    members = resources.of_group(name)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _versions(members)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(resources: ResourceTable, api_version: str) -> Json:
    """The APIResourceList of one version of a group, such as ``v1`` or ``apps/v1``."""
    listed = [entry for each in resources if each.api_version == api_version for entry in _entries(each)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed}


def _entries(resource: ApiResource) -> Iterator[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    for name, values in (("shortNames", resource.short_names), ("categories", resource.categories)):
        if values:
            entry[name] = list(values)
    yield entry
    for each in resource.subresources:
        yield {
            "name": f"{resource.plural}/{each.name}",
            "singularName": "",
            "namespaced": resource.is_namespaced,
            **({"group": each.group, "version": each.version} if each.group else {}),
            "kind": each.kind,
            "verbs": list(each.verbs),
        }


def _aggregated_version(request: Request) -> str:
    """The version of aggregated discovery that the client prefers to the plain one; empty if it does not."""
    for media in request.headers.get("accept", "").split(","):
        parameters = {part.strip() for part in media.split(";")}
        if "as=APIGroupDiscoveryList" in parameters:
            if version := next((each for each in _AGGREGATED_VERSIONS if f"v={each}" in parameters), ""):
                return version
        elif parameters & {"application/json", "*/*"}:
            return ""
    return ""


def _aggregated(resources: Iterable[ApiResource], version: str) -> Response:
    groups = [
        {"metadata": {"name": name}, "versions": [*_discovered(list(members))]}
        for name, members in _by_group(resources)
    ]
    api_version = f"apidiscovery.k8s.io/{version}"
    body = {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": groups}
    answer = json_response(body)
    return Response(answer.status, answer.body, _AGGREGATED.format(version=version))


def _discovered(members: Iterable[ApiResource]) -> Iterator[Json]:
    members = list(members)
    for version in _versions(members):
        resources = [_discovered_resource(each) for each in members if each.version == version]
        yield {"version": version, "resources": resources, "freshness": "Current"}


def _discovered_resource(resource: ApiResource) -> Json:
    found: Json = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.is_namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    for name, values in (("shortNames", resource.short_names), ("categories", resource.categories)):
        if values:
            found[name] = list(values)
    if resource.subresources:
        found["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": {"group": each.group, "version": each.version, "kind": each.kind},
                "verbs": list(each.verbs),
            }
            for each in resource.subresources
        ]
    return found


def _by_group(resources: Iterable[ApiResource]) -> Iterator[tuple[str, Iterator[ApiResource]]]:
    yield from groupby(sorted(resources, key=lambda each: each.group), key=lambda each: each.group)


def _versions(members: Iterable[ApiResource]) -> list[str]:
    return list(dict.fromkeys(each.version for each in members))
