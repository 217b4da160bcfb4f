"""What a client may not do although it may send the request: give on rights, and make what it may only change."""

from __future__ import annotations

import pytest

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AccountTokens
from plugbay.node.access.authorization import RBAC
from plugbay.node.access.clients import ClientUsers
from plugbay.node.access.rights import ClientRights
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.routing import HttpError
from plugbay.testing.clock import ManualClock

ROBOT = {"impersonate-user": "system:serviceaccount:lab:robot"}
ME: Json = {"kind": "ServiceAccount", "namespace": "lab", "name": "robot"}


class UnkeptObjects:
    """Keeps nothing."""

    def save_object(self, key: ObjectKey, value: Json | None) -> None:
        return None

    async def flush(self) -> None:
        return None


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Json:
    """Of texts with spaces between; ``core`` is the core group."""
    parts = [part.split() for part in (groups.replace("core", "''"), resources, verbs, names)]
    made: Json = {"apiGroups": [each.strip("'") for each in parts[0]], "resources": parts[1], "verbs": parts[2]}
    return made | ({"resourceNames": parts[3]} if names else {})


def role(*rules: Json) -> Json:
    return {"metadata": {"name": "r", "namespace": "lab"}, "rules": list(rules)}


def bound(name: str) -> Json:
    return {"metadata": {"name": "b", "namespace": "lab"}, "roleRef": {"kind": "ClusterRole", "name": name}}


async def rights_with(*rules: Json) -> ClientRights:
    objects = ObjectTable(UnkeptObjects())
    reads: Json = {"metadata": {"name": "reads"}, "rules": [rule("core", "pods", "get list")]}
    mine: Json = {"metadata": {"name": "mine"}, "rules": list(rules)}
    for name, value in (("mine", mine), ("reads", reads)):
        await objects.create(ObjectKey(RBAC, "clusterroles", "", name), value)
    binding = bound("mine") | {"metadata": {"name": "mine"}, "subjects": [ME]}
    await objects.create(ObjectKey(RBAC, "clusterrolebindings", "", "mine"), binding)
    clock = ManualClock()
    return ClientRights(ClientUsers(AccountTokens(objects, lambda namespace, name, uid: True, clock)), objects)


@pytest.mark.parametrize(
    "given",
    [
        role(),
        role(rule("core", "pods", "get")),
        role(rule("core", "pods pods/log", "get list", "p q")),
        role(rule("apps", "deployments/scale", "*")),
        role({"nonResourceURLs": ["/metrics/x", "/version"], "verbs": ["get"]}),
        bound("reads"),
    ],
)
async def test_a_client_gives_on_what_it_may_do_itself(given: Json) -> None:
    paths: Json = {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]}
    rights = await rights_with(rule("core", "pods pods/log", "get list"), rule("*", "*/scale", "*"), paths)
    rights.check_granting(ROBOT, "roles", given)


@pytest.mark.parametrize(
    "given",
    [
        role(rule("core", "secrets", "get")),
        role(rule("core", "pods", "get"), rule("core", "pods", "delete")),
        role(rule("core", "pods", "*")),
        role(rule("*", "pods", "get")),
        role(rule("core", "*", "get")),
        role(rule("core", "configmaps", "get")),
        role(rule("core", "configmaps", "get", "a b")),
        role({"nonResourceURLs": ["*"], "verbs": ["get"]}),
        role(rule(" ".join(["core"] * 101), " ".join(["pods"] * 10), " ".join(["get"] * 10))),
        bound("cluster-admin"),
    ],
)
async def test_a_client_gives_no_right_that_it_does_not_have(given: Json) -> None:
    rights = await rights_with(rule("core", "pods", "get list"), rule("core", "configmaps", "get", "a"))
    with pytest.raises(HttpError, match="is attempting to grant RBAC permissions not currently held") as refused:
        rights.check_granting(ROBOT, "roles", given)
    assert refused.value.status == 403
    rights.check_granting({}, "roles", given)  # the owner of the node


async def test_two_verbs_of_roles_allow_what_is_refused_else() -> None:
    rights = await rights_with(rule(RBAC, "roles", "escalate", "r"), rule(RBAC, "clusterroles", "bind", "reads"))
    rights.check_granting(ROBOT, "roles", role(rule("*", "*", "*")))
    rights.check_granting(ROBOT, "rolebindings", bound("reads"))
    with pytest.raises(HttpError):
        rights.check_granting(ROBOT, "rolebindings", bound("cluster-admin"))


async def test_what_a_client_may_only_change_it_does_not_make() -> None:
    rights = await rights_with(rule("core", "pods", "update patch"), rule("core", "configmaps", "create"))
    rights.check_creating(ROBOT, group="", plural="configmaps", namespace="lab", name="c")
    rights.check_creating({}, group="", plural="pods", namespace="lab", name="p")
    with pytest.raises(HttpError, match='cannot create resource "pods" in API group "" in the namespace "lab"'):
        rights.check_creating(ROBOT, group="", plural="pods", namespace="lab", name="p")
