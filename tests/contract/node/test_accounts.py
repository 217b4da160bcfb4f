"""Pods that use the node's API with the token of their service account, as in-cluster clients do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.rigs.api_calls import TABLE, ApiCaller
from tests.contract.rigs.oci import why_not

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

PYTHON = str(Path(sys.base_prefix, "bin/python3"))
CLIENT = """
import json, os, ssl, sys, urllib.error, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
trust = ssl.create_default_context(cafile=place + "/ca.crt")
server = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
for path in sys.argv[1:]:
    for token in (open(place + "/token").read(), "x"):
        request = urllib.request.Request(server + path, headers={"Authorization": "Bearer " + token})
        try:
            print(urllib.request.urlopen(request, context=trust).status)
        except urllib.error.HTTPError as error:
            print(error.code, json.dumps(json.load(error)))
print(open(place + "/namespace").read())
"""


def pod(*command: str, **spec: Any) -> str:
    main = {"name": "c", "command": list(command)}
    made = {"restartPolicy": "Never", "containers": [main], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": made})


async def output(plugbay: Plugbay, manifest: str) -> list[str]:
    ran = await plugbay("pod", "run", "-f", "-", given=manifest)
    assert ran.code == 0, ran
    waited = await plugbay("pod", "wait", "pod/p", "--for=jsonpath={.status.phase}=Succeeded")
    assert waited.code == 0, (waited, (await plugbay("pod", "describe", "p")).out, await plugbay("pod", "logs", "p"))
    return (await plugbay("pod", "logs", "p")).out.splitlines()


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_a_pod_reaches_the_api_and_has_the_rights_of_its_account(plugbay: Plugbay) -> None:
    async with plugbay.node_up("--runtime", "oci", "--api"):
        lines = await output(plugbay, pod(PYTHON, "-c", CLIENT, "/version", "/api/v1/namespaces/default/secrets"))
    assert [line[:3] for line in lines] == ["200", "401", "403", "401", "def"]
    refused = json.loads(lines[2].partition(" ")[2])
    assert (refused["reason"], refused["message"]) == (
        "Forbidden",
        'secrets is forbidden: User "system:serviceaccount:default:default" cannot list resource "secrets" '
        'in API group "" in the namespace "default"',
    )


@pytest.mark.root
@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_a_pod_may_do_without_a_token(plugbay: Plugbay) -> None:
    async with plugbay.node_up("--runtime", "oci", "--api"):
        script = "ls /var/run/secrets/kubernetes.io 2>/dev/null || echo none"
        assert await output(plugbay, pod("sh", "-c", script, automountServiceAccountToken=False)) == ["none"]


async def test_processes_get_a_token_only_when_they_ask_for_one(plugbay: Plugbay) -> None:
    """In-cluster clients look for it in a place that only a container has of its own."""
    async with plugbay.node_up("--api"):
        assert "KUBERNETES_SERVICE_HOST" not in "".join(await output(plugbay, pod("env")))
        assert (await plugbay("pod", "delete", "p")).code == 0
        asks = pod("sh", "-c", 'echo "$PLUGBAY_MOUNTS"', automountServiceAccountToken=True)
        [line] = await output(plugbay, asks)
        assert list(json.loads(line)) == ["/var/run/secrets/kubernetes.io/serviceaccount"]


async def test_a_node_without_an_api_says_that_it_has_no_tokens(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        assert (await plugbay("pod", "run", "-f", "-", given=pod("true", automountServiceAccountToken=True))).code == 0
        async with plugbay.start("events", "-w") as events:
            line = await plugbay.line_with(events, "FailedMount")
    assert "failed to fetch token: this node does not serve its API to pods; start it with --api" in line


ROBOT = "system:serviceaccount:default:robot"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def test_a_role_that_is_bound_to_an_account_is_what_it_may_do(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        ask = ApiCaller(plugbay.root / "plugbay.sock")
        await ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]
        made = await ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "labels"}, "rules": rules})
        assert (made.status, made.warnings) == (201, [])
        subjects = [{"kind": "ServiceAccount", "namespace": "default", "name": "robot"}]
        role = {"kind": "ClusterRole", "name": "labels"}
        binding = {"metadata": {"name": "labels"}, "roleRef": role, "subjects": subjects}
        bindings = f"{RBAC}/clusterrolebindings"
        assert (await ask("POST", bindings, binding)).status == 201
        [row] = (await ask("GET", bindings, accept=TABLE)).value["rows"]
        assert row["cells"][:2] == ["labels", "ClusterRole/labels"]

        async def may(user: str, verb: str, resource: str) -> bool:
            spec = {"user": user, "resourceAttributes": {"verb": verb, "resource": resource}}
            answer = await ask("POST", f"{REVIEWS}/subjectaccessreviews", {"spec": spec})
            assert answer.status == 201, answer
            return bool(answer.value["status"]["allowed"])

        assert await may(ROBOT, "patch", "nodes")
        assert not await may(ROBOT, "delete", "nodes")
        assert not await may(f"{ROBOT}x", "patch", "nodes")
        assert await may("kubernetes-admin", "delete", "nodes"), "the owner of the node"
        assert (await ask("DELETE", f"{bindings}/labels")).status == 200
        assert not await may(ROBOT, "patch", "nodes")


async def test_a_role_that_makes_no_sense_is_refused(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        ask = ApiCaller(plugbay.root / "plugbay.sock")
        joined = {"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": [{}]}}
        for plural, value, field in (
            ("clusterroles", joined, "aggregationRule"),
            ("clusterroles", {"metadata": {"name": "a"}, "rules": [{"resources": ["pods"]}]}, "rules[0].verbs"),
            ("clusterrolebindings", {"metadata": {"name": "a"}, "roleRef": {"kind": "x", "name": "r"}}, "roleRef.kind"),
        ):
            refused = await ask("POST", f"{RBAC}/{plural}", value)
            assert refused.status == 422, refused
            assert field in [each["field"] for each in refused.value["details"]["causes"]]
