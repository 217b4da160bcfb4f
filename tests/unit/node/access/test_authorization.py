"""The rights of service accounts: nothing but discovery, until a role is bound to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AccountUser
from plugbay.node.access.authorization import RBAC, RequestedAction, action_of, is_allowed, refusal
from plugbay.objects.table import ObjectKey
from plugbay.ops.routing import HttpError

ROBOT = AccountUser(
    "system:serviceaccount:lab:robot",
    "u",
    ("system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"),
    (),
)
ME: Json = {"kind": "ServiceAccount", "namespace": "lab", "name": "robot"}


class Roles:
    """Roles and bindings in a dictionary."""

    def __init__(self, *values: Json) -> None:
        self.values = {_key(each): each for each in values}

    def get(self, key: ObjectKey) -> Json | None:
        return self.values.get(key)

    def of(self, group: str, plural: str) -> list[Json]:
        return [value for key, value in self.values.items() if (key.group, key.plural) == (group, plural)]


def _key(value: Json) -> ObjectKey:
    metadata = value["metadata"]
    assert isinstance(metadata, dict)
    return ObjectKey(RBAC, f"{str(value['kind']).lower()}s", str(metadata.get("namespace", "")), str(metadata["name"]))


def role(kind: str, name: str, *rules: Json, namespace: str = "") -> Json:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def binding(kind: str, ref: str, *, namespace: str = "", subject: Json | None = None) -> Json:
    kind_of_role, _, name = ref.partition("/")
    return {
        "kind": kind,
        "metadata": {"name": f"b-{name}", "namespace": namespace},
        "roleRef": {"kind": kind_of_role, "name": name},
        "subjects": [dict(subject or ME)],
    }


def rule(resources: str, verbs: str, *, group: str = "", names: str = "") -> Json:
    made: Json = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return made | ({"resourceNames": names.split()} if names else {})


def may(method: str, target: str, *values: Json) -> bool:
    return is_allowed(ROBOT, action_of(method, target), Roles(*values))


PODS = "/api/v1/namespaces/lab/pods"
READER = role("Role", "reader", rule("pods pods/log", "get list watch"), namespace="lab")
READS = binding("RoleBinding", "Role/reader", namespace="lab")


@pytest.mark.parametrize(
    ("method", "target", "action"),
    [
        ("GET", PODS, RequestedAction("list", PODS, "", "pods", "lab")),
        ("GET", f"{PODS}?watch=true", RequestedAction("watch", PODS, "", "pods", "lab")),
        ("GET", f"{PODS}/p", RequestedAction("get", f"{PODS}/p", "", "pods", "lab", "p")),
        ("GET", f"{PODS}/p/log", RequestedAction("get", f"{PODS}/p/log", "", "pods/log", "lab", "p")),
        ("GET", f"{PODS}/p/exec", RequestedAction("create", f"{PODS}/p/exec", "", "pods/exec", "lab", "p")),
        ("DELETE", PODS, RequestedAction("deletecollection", PODS, "", "pods", "lab")),
        ("PATCH", "/api/v1/nodes/n", RequestedAction("patch", "/api/v1/nodes/n", "", "nodes", "", "n")),
        ("GET", "/api/v1/pods", RequestedAction("list", "/api/v1/pods", "", "pods")),
        (
            "PUT",
            "/apis/apps/v1/namespaces/lab/daemonsets/d/status",
            RequestedAction(
                "update", "/apis/apps/v1/namespaces/lab/daemonsets/d/status", "apps", "daemonsets/status", "lab", "d"
            ),
        ),
        (
            "GET",
            "/api/v1/namespaces/lab",
            RequestedAction("get", "/api/v1/namespaces/lab", "", "namespaces", "lab", "lab"),
        ),
        ("GET", f"{PODS}/", RequestedAction("list", PODS, "", "pods", "lab")),
        ("HEAD", "/api/v1/secrets/?watch=true", RequestedAction("watch", "/api/v1/secrets", "", "secrets")),
        ("GET", "/version/", RequestedAction("get", "/version")),
        ("GET", "/", RequestedAction("get", "/")),
        ("DELETE", f"{PODS}/", RequestedAction("delete", "")),
        ("POST", "/plugbay/v1/drain", RequestedAction("post", "/plugbay/v1/drain")),
        ("GET", f"{PODS}?fieldSelector=metadata.name%3Dp", RequestedAction("list", PODS, "", "pods", "lab", "p")),
        ("GET", f"{PODS}?fieldSelector=metadata.name==p,a=b", RequestedAction("list", PODS, "", "pods", "lab")),
        ("GET", f"{PODS}?fieldSelector=metadata.name!=p", RequestedAction("list", PODS, "", "pods", "lab")),
        (
            "GET",
            f"{PODS}?fieldSelector=metadata.name=p&fieldSelector=",
            RequestedAction("list", PODS, "", "pods", "lab"),
        ),
        (
            "DELETE",
            f"{PODS}?fieldSelector=metadata.name=p",
            RequestedAction("deletecollection", PODS, "", "pods", "lab"),
        ),
        ("GET", f"{PODS}?watch", RequestedAction("watch", PODS, "", "pods", "lab")),
        ("GET", f"{PODS}?watch=True", RequestedAction("watch", PODS, "", "pods", "lab")),
        ("HEAD", "/livez", RequestedAction("get", "/livez")),
        ("GET", "/apis", RequestedAction("get", "/apis")),
        ("GET", "/version", RequestedAction("get", "/version")),
    ],
)
def test_a_request_is_an_action(method: str, target: str, action: RequestedAction) -> None:
    assert action_of(method, target) == action


def test_an_account_without_a_role_may_look_at_what_the_api_has() -> None:
    assert all(may("GET", path) for path in ("/api", "/apis", "/api/v1", "/openapi/v3", "/version", "/livez"))
    assert may("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    for path in (PODS, f"{PODS}/p", "/api/v1/nodes", "/api/v1/namespaces/lab/secrets/s", "/metrics", "/"):
        assert not may("GET", path), path
    assert not may("POST", "/api")


def test_a_slash_at_the_end_makes_no_resource_a_path() -> None:
    """The router reads over it, so that rules of paths must not count for it."""
    everywhere = role("ClusterRole", "paths", {"nonResourceURLs": ["*"], "verbs": ["*"]})
    bound = binding("ClusterRoleBinding", "ClusterRole/paths")
    assert may("GET", "/metrics/", everywhere, bound)
    for path in (f"{PODS}/", "/api/v1/secrets/", "/api/v1/namespaces/lab/secrets/s/"):
        assert not may("GET", path, everywhere, bound)


def test_a_role_counts_in_its_namespace_for_its_subjects() -> None:
    assert may("GET", PODS, READER, READS)
    assert may("GET", f"{PODS}/p/log", READER, READS)
    assert not may("DELETE", f"{PODS}/p", READER, READS)
    assert not may("GET", f"{PODS}/p/status", READER, READS)
    assert not may("GET", "/api/v1/namespaces/other/pods", READER, READS)
    assert not may("GET", "/api/v1/pods", READER, READS), "of all namespaces"
    other = binding("RoleBinding", "Role/reader", namespace="lab", subject=ME | {"name": "other"})
    assert not may("GET", PODS, READER, other)
    assert not may("GET", PODS, READS), "the role is missing"


def test_a_cluster_role_counts_everywhere_or_in_the_namespace_of_its_binding() -> None:
    nodes = role("ClusterRole", "nodes", rule("nodes", "get patch", names="n1"), rule("pods", "*"))
    everywhere = binding("ClusterRoleBinding", "ClusterRole/nodes")
    assert may("PATCH", "/api/v1/nodes/n1", nodes, everywhere)
    assert not may("PATCH", "/api/v1/nodes/n2", nodes, everywhere)
    assert may("DELETE", "/api/v1/namespaces/any/pods/p", nodes, everywhere)
    here = binding("RoleBinding", "ClusterRole/nodes", namespace="lab")
    assert may("DELETE", f"{PODS}/p", nodes, here)
    assert not may("DELETE", "/api/v1/namespaces/any/pods/p", nodes, here)
    assert not may("PATCH", "/api/v1/nodes/n1", nodes, here)


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "Group", "name": "system:serviceaccounts"},
        {"kind": "Group", "name": "system:serviceaccounts:lab"},
        {"kind": "Group", "name": "system:authenticated"},
        {"kind": "User", "name": "system:serviceaccount:lab:robot"},
    ],
)
def test_groups_and_users_are_subjects_too(subject: Json) -> None:
    admin = binding("ClusterRoleBinding", "ClusterRole/cluster-admin", subject=subject)
    assert may("DELETE", "/api/v1/namespaces/any/secrets/s", admin)
    assert may("GET", "/metrics", admin)


def test_subresources_and_paths_have_their_patterns() -> None:
    scale = role("ClusterRole", "s", rule("*/scale", "get", group="*"))
    bound = binding("ClusterRoleBinding", "ClusterRole/s")
    assert may("GET", "/apis/apps/v1/namespaces/lab/deployments/d/scale", scale, bound)
    assert not may("GET", "/apis/apps/v1/namespaces/lab/deployments/d", scale, bound)
    paths = role("ClusterRole", "s", {"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]})
    assert may("GET", "/metrics", paths, bound)
    assert may("GET", "/debug/x", paths, bound)
    assert not may("GET", "/metrics/x", paths, bound)
    assert not may("GET", "/metrics", paths, binding("RoleBinding", "ClusterRole/s", namespace="lab"))


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/namespaces//secrets",
        "/api//v1/secrets",
        "/apis//v1/x",
        "//api/v1/secrets",
        "/api/v1/namespaces/lab%2Fsecrets",
        "/api/v1/secrets/",
    ],
)
def test_an_odd_path_is_not_a_way_around(target: str) -> None:
    assert not may("GET", target, READER, READS)


def test_refusals_are_worded_as_by_an_api_server() -> None:
    assert refusal(ROBOT, action_of("GET", PODS)) == (
        'pods is forbidden: User "system:serviceaccount:lab:robot" cannot list resource "pods" in API group "" in the '
        'namespace "lab"'
    )
    assert refusal(ROBOT, action_of("PUT", "/apis/apps/v1/daemonsets/d/status")) == (
        'daemonsets.apps "d" is forbidden: User "system:serviceaccount:lab:robot" cannot update resource '
        '"daemonsets/status" in API group "apps" at the cluster scope'
    )
    assert refusal(ROBOT, action_of("GET", "/metrics")) == (
        'forbidden: User "system:serviceaccount:lab:robot" cannot get path "/metrics"'
    )


@given(st.text(max_size=40), st.sampled_from(["GET", "POST", "PUT", "DELETE", "x", ""]))
def test_any_target_is_an_action_or_refused(target: str, method: str) -> None:
    for each in (target, f"/api/v1/{target}", f"/apis/{target}"):
        try:
            action = action_of(method, each)
        except HttpError:
            continue
        assert not (action.resource and is_allowed(ROBOT, action, Roles())) or "selfsubject" in action.resource
