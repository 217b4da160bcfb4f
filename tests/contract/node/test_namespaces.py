"""Namespaces, their accounts and tokens, as clients see them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugbay.objects.table import ObjectKey, ObjectTable
from tests.contract.rigs.api_calls import MERGE, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import DEADLINE_S, LeapingClock, pod, running_node

NAMESPACES = "/api/v1/namespaces"
LAB = f"{NAMESPACES}/lab"
ALWAYS = ["default", "kube-node-lease", "kube-public", "kube-system"]
TOKEN = f"{NAMESPACES}/default/serviceaccounts/default/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: s, namespace: field}
spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i, command: ["true"]}]}
"""


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


async def until(ask: ApiCaller, path: str, wanted: Callable[[Any], bool]) -> Any:
    """The list at ``path`` as soon as it is as wanted, looked at after each change of it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = (await ask("GET", path)).value
            if wanted(found["items"]):
                return found["items"]
            await ask(
                "GET", path, watch="true", resourceVersion=found["metadata"]["resourceVersion"], timeoutSeconds="1"
            )


def names(items: list[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in items]


HELD = [
    "Some resources are remaining: configmaps has 1 resource instances",
    "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
]


def remaining(value: Json) -> list[str]:
    """What a namespace that is being deleted waits for."""
    return [each["message"] for each in value["status"].get("conditions", []) if each["status"] == "True"]


def namespace(name: str, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


async def test_every_cluster_has_its_namespaces_and_accounts(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        found = (await ask("GET", NAMESPACES)).value["items"]
        assert names(found) == ALWAYS
        assert {each["status"]["phase"] for each in found} == {"Active"}
        accounts = (await ask("GET", "/api/v1/serviceaccounts")).value["items"]
        assert [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in accounts] == [
            (name, "default") for name in ALWAYS
        ]
        uids = [each["metadata"]["uid"] for each in [*found, *accounts]]
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        again = [
            *(await ask("GET", NAMESPACES)).value["items"],
            *(await ask("GET", "/api/v1/serviceaccounts")).value["items"],
        ]
        assert [each["metadata"]["uid"] for each in again] == uids, "they are the same after a restart"


async def test_nothing_is_made_in_a_namespace_that_there_is_not(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        for plural, body in (("pods", pod("p")), ("configmaps", config)):
            for dry_run in ({}, {"dryRun": "All"}):
                answer = await ask("POST", f"{LAB}/{plural}", body, **dry_run)
                assert (answer.status, answer.value["message"]) == (404, 'namespaces "lab" not found')
        made = await ask("POST", NAMESPACES, namespace("lab"))
        assert made.status == 201
        assert made.value["metadata"]["labels"] == {"kubernetes.io/metadata.name": "lab"}
        assert (await ask("POST", f"{LAB}/configmaps", config)).status == 201
        await until(ask, f"{LAB}/serviceaccounts", lambda items: names(items) == ["default"])
        assert (await ask("POST", NAMESPACES, namespace("Not.a.label"))).status == 422


async def test_a_namespace_ends_with_all_that_is_in_it(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", NAMESPACES, namespace("lab"))
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await ask("POST", f"{LAB}/configmaps", held)
        await ask("POST", f"{LAB}/pods", pod("p", terminationGracePeriodSeconds=0))
        deleted = await ask("DELETE", LAB)
        assert (deleted.status, deleted.value["status"]["phase"]) == (200, "Terminating")
        await until(ask, f"{LAB}/pods", lambda items: not items)
        refused = await ask("POST", f"{LAB}/configmaps", held)
        assert (refused.status, refused.value["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
        await until(
            ask,
            f"{LAB}/configmaps",
            lambda items: [bool(each["metadata"].get("deletionTimestamp")) for each in items] == [True],
        )
        await until(ask, NAMESPACES, lambda items: HELD in [remaining(each) for each in items])
        seen = (await ask("GET", LAB)).value
        assert (await ask("PUT", f"{LAB}/finalize", seen | {"spec": {"finalizers": ["kubernetes"]}})).status == 200
        assert (await ask("POST", f"{LAB}/finalize", seen)).status == 405
        assert (await ask("GET", LAB)).value["spec"] == {"finalizers": ["kubernetes"]}
        await ask("PATCH", f"{LAB}/configmaps/a", {"metadata": {"finalizers": None}}, kind=MERGE)
        await until(ask, NAMESPACES, lambda items: names(items) == ALWAYS)


async def test_a_client_has_a_namespace_go_without_waiting(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", NAMESPACES, namespace("lab"))
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
        await ask("POST", f"{LAB}/configmaps", held)
        await ask("DELETE", LAB)
        assert (await ask("PUT", f"{LAB}/finalize", namespace("lab"))).status == 200
        assert (await ask("GET", LAB)).status == 404


async def test_some_namespaces_cannot_be_deleted(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        refused = await ask("DELETE", f"{NAMESPACES}/default")
        why = 'namespaces "default" is forbidden: this namespace may not be deleted'
        assert (refused.status, refused.value["message"]) == (403, why)
        assert (await ask("DELETE", NAMESPACES)).status == 405


async def test_static_pods_bring_their_namespace_along(root: Path) -> None:
    (root / "manifests").mkdir()
    (root / "manifests/s.yaml").write_text(MANIFEST)
    async with running_node(root, manifests=root / "manifests") as node:
        ask = ApiCaller(node.config.control_socket)
        await until(ask, NAMESPACES, lambda items: "field" in names(items))
        await until(ask, f"{NAMESPACES}/field/pods", lambda items: names(items) == ["s-n1"])


async def test_a_default_account_comes_back(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        accounts = f"{NAMESPACES}/default/serviceaccounts"
        [before] = (await ask("GET", accounts)).value["items"]
        assert (await ask("DELETE", f"{accounts}/default")).status == 200
        [after] = await until(ask, accounts, bool)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        table = (await ask("GET", accounts, accept=TABLE)).value
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Secrets", "Age"]


async def test_tokens_of_accounts_are_good_while_account_and_time_last(root: Path) -> None:
    clock = LeapingClock()
    async with running_node(root, clock) as node:
        ask = ApiCaller(node.config.control_socket)
        made = (await ask("POST", TOKEN, {"spec": {"expirationSeconds": 600}})).value
        token = made["status"]["token"]
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert claims["sub"] == "system:serviceaccount:default:default"
        assert claims["exp"] - claims["iat"] == 600

        async def review(text: str, **spec: Any) -> Json:
            status = (await ask("POST", REVIEWS, {"spec": {"token": text, **spec}})).value["status"]
            assert isinstance(status, dict)
            return status

        good = await review(token)
        assert (good["authenticated"], good["user"]["username"]) == (True, claims["sub"])
        assert "authenticated" not in await review(token, audiences=["vault"])
        head, body, signature = token.split(".")
        forged = base64.urlsafe_b64encode(json.dumps(claims | {"exp": 9**12}).encode()).decode().rstrip("=")
        for other in (f"{head}.{forged}.{signature}", f"{head}.{body}.", token[:-3], "", "x", "a.b.c", "ä.b.c"):
            assert "authenticated" not in await review(other)
        clock.leap(601)
        assert "authenticated" not in await review(token)
        token = (await ask("POST", TOKEN, {})).value["status"]["token"]
        await ask("DELETE", f"{NAMESPACES}/default/serviceaccounts/default")
        assert "authenticated" not in await review(token), "another account of this name is another account"


async def test_a_token_bound_to_a_pod_ends_with_it(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        await ask("POST", f"{NAMESPACES}/default/pods", pod("p", terminationGracePeriodSeconds=0))
        bound = {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}}}
        token = (await ask("POST", TOKEN, bound)).value["status"]["token"]
        assert (await ask("POST", REVIEWS, {"spec": {"token": token}})).value["status"]["authenticated"]
        await node.gone("p", gracePeriodSeconds="0")
        assert "authenticated" not in (await ask("POST", REVIEWS, {"spec": {"token": token}})).value["status"]
        assert (await ask("POST", TOKEN, bound)).status == 404
        bound["spec"]["boundObjectRef"]["kind"] = "Node"
        assert (await ask("POST", TOKEN, bound)).status == 422
        assert (await ask("POST", TOKEN, {"spec": {"expirationSeconds": 10}})).status == 422


async def test_a_token_outlives_a_restart(root: Path) -> None:
    async with running_node(root) as node:
        token = (await ApiCaller(node.config.control_socket)("POST", TOKEN, {})).value["status"]["token"]
    async with running_node(root) as node:
        review = await ApiCaller(node.config.control_socket)("POST", REVIEWS, {"spec": {"token": token}})
        assert review.value["status"]["authenticated"]


async def test_reviews_of_oneself_are_answered(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        base = "/apis/authorization.k8s.io/v1"
        assert (await ask("POST", f"{base}/selfsubjectaccessreviews", {"spec": {}})).value["status"]["allowed"]
        stranger = await ask("POST", f"{base}/subjectaccessreviews", {"spec": {"user": "u"}})
        assert stranger.value["status"] == {"allowed": False}
        rules = await ask("POST", f"{base}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
        assert rules.value["status"]["resourceRules"][0]["verbs"] == ["*"]
        me = await ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert me.value["status"]["userInfo"]["username"] == "kubernetes-admin"


@pytest.mark.parametrize("comes_again", [False, True])
async def test_a_namespace_that_a_client_ends_first_is_no_loss(
    root: Path, monkeypatch: pytest.MonkeyPatch, comes_again: bool
) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        replace = ObjectTable.replace
        ended = asyncio.Event()

        async def ends_meanwhile(table: ObjectTable, key: ObjectKey, value: Json) -> Json:
            """What a client does while the node waits for the disk."""
            done = await replace(table, key, value)
            if (key.plural, key.name) == ("namespaces", "a") and value["spec"] == {} and not ended.is_set():
                ended.set()
                final = {"metadata": {"name": "a"}, "spec": {"finalizers": []}}
                assert (await ask("PUT", "/api/v1/namespaces/a/finalize", final)).status == 200
                if comes_again:
                    assert (await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})).status == 201
            return done

        monkeypatch.setattr(ObjectTable, "replace", ends_meanwhile)
        assert (await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})).status == 201
        assert (await ask("DELETE", "/api/v1/namespaces/a")).status == 200
        async with asyncio.timeout(DEADLINE_S):
            await ended.wait()
        assert (await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "b"}})).status == 201
        await node.until(
            "/api/v1/namespaces/b/serviceaccounts", lambda _, value: value["metadata"]["name"] == "default"
        )
        found = await ask("GET", "/api/v1/namespaces/a")
        assert found.status == (200 if comes_again else 404)
