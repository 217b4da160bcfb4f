"""Objects that are stored as clients write them: made, changed, deleted and found again as with an API server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.rigs.api_calls import MERGE, TABLE, ApiCaller, Json
from tests.contract.rigs.node_run import running_node

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

CONFIGS = "/api/v1/namespaces/default/configmaps"
ENOUGH = 6
"""Objects of one writer, after which its node is killed."""
SECRETS = "/api/v1/namespaces/default/secrets"


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


def config(name: str, /, metadata: Json | None = None, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}, **fields}


def secret(name: str, **fields: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


async def test_an_object_lives_as_with_an_api_server(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        status, made, _ = await ask("POST", CONFIGS, config("a", data={"k": "v"}))
        assert (status, made["data"], list(made)[:3]) == (201, {"k": "v"}, ["apiVersion", "kind", "metadata"])
        assert {"uid", "creationTimestamp", "resourceVersion"} <= made["metadata"].keys()
        assert (await ask("GET", f"{CONFIGS}/a"))[1] == made
        status, again, _ = await ask("POST", CONFIGS, config("a"))
        assert (status, again["reason"], again["message"]) == (409, "AlreadyExists", 'configmaps "a" already exists')
        status, changed, _ = await ask("PUT", f"{CONFIGS}/a", made | {"data": {"k": "w"}})
        assert (status, changed["data"], changed["metadata"]["uid"]) == (200, {"k": "w"}, made["metadata"]["uid"])
        assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        status, stale, _ = await ask("PUT", f"{CONFIGS}/a", made | {"data": {}})
        assert (status, stale["reason"]) == (409, "Conflict")
        assert stale["message"].startswith(
            'Operation cannot be fulfilled on configmaps "a": the object has been modified'
        )
        assert (await ask("PUT", f"{CONFIGS}/a", changed))[1] == changed, "an equal state changes nothing"
        patched = (await ask("PATCH", f"{CONFIGS}/a", {"data": {"x": "y"}}, kind=MERGE))[1]
        assert patched["data"] == {"k": "w", "x": "y"}
        status, gone, _ = await ask("DELETE", f"{CONFIGS}/a")
        assert (status, gone["status"], gone["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
        status, missing, _ = await ask("DELETE", f"{CONFIGS}/a")
        assert (status, missing["message"]) == (404, 'configmaps "a" not found')
        assert (await ask("PUT", f"{CONFIGS}/b", config("b")))[0] == 404, "PUT makes no config map"


async def test_a_rehearsal_stores_nothing(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        status, made, _ = await ask("POST", CONFIGS, config("a"), dryRun="All")
        assert (status, made["metadata"]["name"]) == (201, "a")
        assert (await ask("GET", f"{CONFIGS}/a"))[0] == 404
        kept = (await ask("POST", CONFIGS, config("a", data={"k": "v"})))[1]
        assert (await ask("PUT", f"{CONFIGS}/a", config("a"), dryRun="All"))[0] == 200
        assert (await ask("PATCH", f"{CONFIGS}/a", {"data": {"x": "y"}}, kind=MERGE, dryRun="All"))[0] == 200
        assert (await ask("DELETE", f"{CONFIGS}/a", {"dryRun": ["All"]}))[0] == 200
        assert (await ask("DELETE", CONFIGS, dryRun="All"))[0] == 200
        assert (await ask("GET", f"{CONFIGS}/a"))[1] == kept


async def test_unknown_fields_are_refused_told_or_left_out(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        body = config("a", datta={"k": "v"})
        status, refused, _ = await ask("POST", CONFIGS, body, fieldValidation="Strict")
        assert (status, refused["reason"]) == (400, "BadRequest")
        assert refused["message"].endswith('strict decoding error: unknown field "datta"')
        _, made, warnings = await ask("POST", CONFIGS, body)
        assert "datta" not in made
        assert warnings == ['299 - "unknown field \\"datta\\""']
        assert (await ask("PUT", f"{CONFIGS}/a", body, fieldValidation="Ignore")).warnings == []
        status, refused, _ = await ask("POST", CONFIGS, config("b", data={"k": 1}))
        assert status == 400
        assert refused["message"].endswith("cannot unmarshal number into Go struct field ConfigMap.data of type string")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CONFIGS, config("A_b"), "metadata.name"),
        (CONFIGS, config(""), "metadata.name"),
        (CONFIGS, config("a", metadata={"labels": {"k": "a b"}}), "metadata.labels"),
        (CONFIGS, config("a", data={"a b": ""}), "data[a b]"),
        (CONFIGS, config("a", data={"k": ""}, binaryData={"k": ""}), "data[k]"),
        (CONFIGS, config("a", data={"k": "x" * (1024 * 1024 + 1)}), ""),
        (SECRETS, secret("a", type="kubernetes.io/tls"), "data[tls.crt]"),
        (SECRETS, secret("a", stringData={"..k": ""}), "data[..k]"),
        (SECRETS, secret("a", data={"k": "QUFB" * (1024 * 1024 // 3 + 1)}), "data"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
async def test_what_an_api_server_refuses_is_refused(root: Path, path: str, body: Json, field: str) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        status, refused, _ = await ask("POST", path, body)
        assert (status, refused["reason"], refused["details"]["causes"][0]["field"]) == (422, "Invalid", field)


async def test_secrets_take_plain_texts_and_can_be_immutable(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        made = (await ask("POST", SECRETS, secret("s", stringData={"k": "v"}, immutable=True)))[1]
        assert (made["data"], made["type"], "stringData" in made) == ({"k": "dg=="}, "Opaque", False)
        for change in ({"data": {"k": "dw=="}}, {"immutable": False}, {"type": "other"}):
            assert (await ask("PATCH", f"{SECRETS}/s", change, kind=MERGE))[0] == 422
        status, refused, _ = await ask("POST", SECRETS, secret("t", data={"k": "?"}))
        assert (status, "illegal base64 data" in refused["message"]) == (400, True)
        account = {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}}
        of_token = secret("t", type="kubernetes.io/service-account-token", metadata=account)
        status, _, [warning] = await ask("POST", SECRETS, of_token, dryRun="All")
        assert (status, "puts no token into a secret" in warning) == (201, True)
        shown = (await ask("GET", SECRETS, accept=TABLE)).value
        assert [each["name"] for each in shown["columnDefinitions"]] == ["Name", "Type", "Data", "Age"]
        assert shown["rows"][0]["cells"][:3] == ["s", "Opaque", 1]


async def test_finalizers_hold_an_object_until_they_are_gone(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        held = (await ask("POST", CONFIGS, config("a", metadata={"finalizers": ["example.com/hold"]})))[1]
        assert (await ask("DELETE", f"{CONFIGS}/a", {"preconditions": {"uid": "other"}}))[0] == 409
        status, waiting, _ = await ask("DELETE", f"{CONFIGS}/a", {"preconditions": {"uid": held["metadata"]["uid"]}})
        assert (status, waiting["kind"], "deletionTimestamp" in waiting["metadata"]) == (200, "ConfigMap", True)
        assert (await ask("DELETE", f"{CONFIGS}/a"))[1]["metadata"] == waiting["metadata"]
        more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
        assert (await ask("PATCH", f"{CONFIGS}/a", more, kind=MERGE))[0] == 422
        assert (await ask("PATCH", f"{CONFIGS}/a", {"metadata": {"finalizers": None}}, kind=MERGE))[0] == 200
        assert (await ask("GET", f"{CONFIGS}/a"))[0] == 404


async def test_names_are_generated_and_collections_deleted(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for label in ("x", "x", "y"):
            wanted = {"generateName": "a-", "name": "", "labels": {"k": label}}
            made = (await ask("POST", CONFIGS, config("", metadata=wanted)))[1]
            assert made["metadata"]["name"].startswith("a-")
        deleted = (await ask("DELETE", CONFIGS, labelSelector="k=x"))[1]
        assert (deleted["kind"], len(deleted["items"])) == ("ConfigMapList", 2)
        left = (await ask("GET", CONFIGS))[1]["items"]
        assert [each["metadata"]["labels"]["k"] for each in left] == ["y"]


async def test_watches_tell_of_stored_objects(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        version = (await ask("GET", CONFIGS))[1]["metadata"]["resourceVersion"]
        await ask("POST", CONFIGS, config("a"))
        await ask("PUT", f"{CONFIGS}/a", config("a", data={"k": "v"}))
        await ask("DELETE", f"{CONFIGS}/a")
        told = (await ask("GET", CONFIGS, watch="true", resourceVersion=version, timeoutSeconds="1")).value
        assert [each["type"] for each in told] == ["ADDED", "MODIFIED", "DELETED"]


async def test_verbs_and_places_that_there_are_not(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for method, path, status in (
            ("POST", "/api/v1/configmaps", 405),
            ("PUT", CONFIGS, 405),
            ("POST", "/api/v1/nodes", 405),
            ("GET", "/api/v1/namespaces/default/gophers", 404),
            ("GET", "/api/v1/namespaces/default/nodes", 404),
            ("GET", "/api/v1/configmaps/a", 404),
            ("GET", f"{CONFIGS}/a/status", 404),
            ("GET", "/apis/example.com/v1/gophers", 404),
            ("GET", "/apis/example.com", 404),
            ("GET", "/apis/example.com/v1", 404),
            ("GET", "/openapi/v3/apis/example.com/v1", 404),
        ):
            assert (await ask(method, path, {} if method != "GET" else None))[0] == status, (method, path)
        status, wrong, _ = await ask("POST", CONFIGS, config("a") | {"kind": "Secret"})
        assert (status, "does not match" in wrong["message"]) == (400, True)
        elsewhere = config("a", metadata={"namespace": "other"})
        assert (await ask("POST", CONFIGS, elsewhere))[0] == 400
        assert (await ask("POST", CONFIGS, config("a")))[0] == 201
        assert (await ask("POST", f"{CONFIGS}?dryRun=All&dryRun=", config("twice")))[0] == 400
        assert (await ask("DELETE", f"{CONFIGS}?labelSelector=a&labelSelector="))[0] == 400
        deep = b'{"data":' + b'{"a":' * 900 + b"1" + b"}" * 901
        assert (await ask("PATCH", f"{CONFIGS}/a", deep, kind="application/strategic-merge-patch+json"))[0] == 400
        half = rb'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "\ud800"}}'
        assert (await ask("PATCH", f"{CONFIGS}/a", half, kind="application/apply-patch+yaml", fieldManager="m"))[
            0
        ] == 400


@pytest.mark.timeout(180)
async def test_what_was_answered_is_there_after_the_node_was_killed(plugbay: Plugbay) -> None:
    """Each round kills the node at another moment while four clients write."""
    answered: dict[str, Json | None] = {}

    async def write(writer: str) -> None:
        with suppress(OSError, ValueError, HTTPException):
            for number in range(1000):
                name = f"{writer}-{number}"
                answered[name] = (await ask("POST", CONFIGS, config(name))).value
                if number == ENOUGH:
                    enough.set()
                if number % 3 == 1:
                    answered.pop(name)
                    changed = await ask("PUT", f"{CONFIGS}/{name}", config(name, data={"written": "again"}))
                    answered[name] = changed.value
                if number % 3 == 2:
                    answered.pop(name)
                    await ask("DELETE", f"{CONFIGS}/{name}")
                    answered[name] = None

    ask = ApiCaller(plugbay.root / "plugbay.sock")
    for round_ in range(4):
        enough = asyncio.Event()
        async with plugbay.node_up() as node:
            found = {each["metadata"]["name"]: each for each in (await ask("GET", CONFIGS)).value["items"]}
            for name, value in answered.items():
                assert found.get(name) == value, name
            async with asyncio.TaskGroup() as tasks:
                for each in range(4):
                    tasks.create_task(write(f"r{round_}w{each}"))
                await enough.wait()
                node.kill()
                await node.wait()
    assert len(answered) > 4 * ENOUGH


async def test_paths_that_lead_nowhere_have_details_for_clients_that_look_into_them(root: Path) -> None:
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        for path in ("/nope", "/api/v1/nopes", "/apis/nope.example/v1", "/api/v1/namespaces/default/pods/p/nope"):
            answer = await ask("GET", path)
            assert (answer.status, answer.value["reason"], answer.value["details"]) == (404, "NotFound", {}), path
            assert answer.value["message"] == "the server could not find the requested resource"
        refused = await ask("PUT", "/api/v1/pods", {})
        assert (refused.status, refused.value["details"]) == (405, {})
        assert [(await ask("HEAD", path)).status for path in ("/api/v1/pods", "/healthz")] == [405, 200]
