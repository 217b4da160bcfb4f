"""Requests that no client sends: each is answered with words, and the node goes on as before."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.contract.rigs.api_calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiAnswer, ApiCaller, Json
from tests.contract.rigs.http_requests import connect
from tests.contract.rigs.node_run import PODS, Node, pod, running_node

CONFIGS: Final = "/api/v1/namespaces/default/configmaps"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**63,
    10**400,
    1.5,
    "",
    "\x00",
    "x" * 300,
    "a/../b",
    [],
    [None],
    [[]],
    {},
    {"": None},
)
"""Values of the wrong kind for most fields."""
KINDS: Final[dict[str, Json]] = {
    CONFIGS: {"data": {"k": "v"}, "binaryData": {"b": "QQ=="}, "immutable": False},
    "/api/v1/namespaces/default/secrets": {"data": {"k": "QQ=="}, "stringData": {"l": "v"}, "type": "Opaque"},
    "/api/v1/namespaces/default/services": {
        "spec": {"ports": [{"port": 1, "targetPort": "a"}], "selector": {"a": "b"}}
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {"spec": {"leaseDurationSeconds": 1, "renewTime": ""}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "busybox", "command": ["true"]}]},
            },
        }
    },
    "/apis/batch/v1/namespaces/default/jobs": {
        "spec": {
            "suspend": True,
            "completions": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "busybox", "command": ["true"]}],
                }
            },
        }
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "a", "kind": "A"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        }
    },
    "/apis/resource.k8s.io/v1/deviceclasses": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
}


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


@asynccontextmanager
async def attacked_node(root: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Node]:
    """A node that answers at the end as at the start, and has logged no traceback."""
    async with running_node(root) as node:
        ask = ApiCaller(node.config.control_socket)
        kept = (await ask("POST", CONFIGS, {"metadata": {"name": "kept"}, "data": {"k": "v"}})).value
        yield node
        found = (await ask("GET", f"{CONFIGS}/kept")).value
        assert found == kept
    failed = [record for record in caplog.records if record.exc_info]
    assert not failed, failed[0].getMessage()


def check(answer: ApiAnswer) -> None:
    """Hold an answer against what clients rely on."""
    assert answer.status not in (500, 502, 503), answer.value
    if answer.status >= 400:
        found = answer.value
        assert (found["kind"], found["apiVersion"], found["status"]) == ("Status", "v1", "Failure")
        assert found["code"] == answer.status
        assert found["reason"]
        assert found["message"]


def changed_at_each_place(value: Any) -> Iterator[Any]:
    """``value`` with an odd value in the place of each of its parts, one after the other."""
    yield from ODD
    if isinstance(value, dict):
        for name, each in value.items():
            yield from ({**value, name: odd} for odd in changed_at_each_place(each))
        yield {**value, "x\ud800y": "unknown"}
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from ([*value[:index], odd, *value[index + 1 :]] for odd in changed_at_each_place(each))


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.soak)])
async def test_each_field_may_have_any_value(root: Path, caplog: pytest.LogCaptureFixture, step: int) -> None:
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)
        owner = {"apiVersion": "v1", "kind": "A", "name": "n", "uid": "u"}
        metadata: Json = {"name": "a", "labels": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": [owner]}
        for path, fields in KINDS.items():
            for body in islice(changed_at_each_place({"metadata": metadata, **fields}), 0, None, step):
                check(await ask("POST", path, body, dryRun="All"))
        for body in islice(changed_at_each_place(pod("p", "true")), 0, None, step):
            check(await ask("POST", PODS, body, dryRun="All"))
        for body in islice(
            changed_at_each_place({"metadata": metadata, "spec": {"taints": [{"key": "a"}]}}), 0, None, step
        ):
            check(await ask("PATCH", "/api/v1/nodes/n1", body, kind=MERGE, dryRun="All"))


async def test_what_cannot_be_kept_is_refused_wherever_it_comes(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    deep = json.dumps({"data": {"k": "v"}}).encode().replace(b'"v"', b"[" * 5000 + b"]" * 5000)
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)
        for sent in (
            b'{"data": {"k": "\\ud800"}}',
            b'{"data": {"k": 1e400}}',
            b'{"data": NaN}',
            b"\xff",
            b"",
            b"1" * 9999,
            deep,
        ):
            for path in (CONFIGS, PODS, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"):
                answer = await ask("POST", path, sent)
                check(answer)
                assert answer.status == 400
            for kind in (MERGE, STRATEGIC, JSON_PATCH, APPLY):
                answer = await ask("PATCH", f"{CONFIGS}/kept", sent, kind=kind, fieldManager="m")
                check(answer)
                assert answer.status in (400, 422)
        for kind in ("application/cbor", "text/plain", "application/vnd.other"):
            assert (await ask("PATCH", f"{CONFIGS}/kept", {}, kind=kind)).status == 415
        assert (await ask("POST", CONFIGS, {}, kind="application/cbor")).status == 415
        for text in (
            b"data: .inf",
            b"data: {k: .nan}",
            b'data: {k: "\\ud800"}',
            b"a: 1\na: 2",
            b"&a [*a]",
            b"--- 1\n--- 2",
        ):
            answer = await ask("POST", CONFIGS, text, kind="application/yaml")
            check(answer)
            assert answer.status == 400
        operations: list[Any] = [
            *("x", 1, None, {}, {"op": "add"}, {"op": "add", "path": 5}, {"op": ["add"], "path": "/data"}),
            *({"op": "copy", "from": 1, "path": "/a"}, {"op": "copy", "from": "/none", "path": "/a"}),
            *({"op": "move", "from": "/data", "path": "/data/k/x"}, {"op": "add", "path": "/data/-", "value": 1}),
            *({"op": "remove", "path": "/a~"}, {"op": "test", "path": ""}, {"op": "replace", "path": "", "value": []}),
        ]
        for operation in operations:
            answer = await ask("PATCH", f"{CONFIGS}/kept", [operation], kind=JSON_PATCH)
            check(answer)
            assert answer.status in (400, 413, 422)


async def test_fields_that_stand_twice_are_refused_or_told(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    twice = b'{"metadata": {"name": "a"}, "data": {"k": "v", "k": "w"}}'
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)
        refused = await ask("POST", CONFIGS, twice, fieldValidation="Strict")
        check(refused)
        assert (refused.status, 'duplicate field "data.k"' in refused.value["message"]) == (400, True)
        made = await ask("POST", CONFIGS, twice)
        assert (made.status, made.value["data"], made.warnings) == (
            201,
            {"k": "w"},
            ['299 - "duplicate field \\"data.k\\""'],
        )
        refused = await ask("POST", PODS, json.dumps(pod("p")).encode()[:-1] + b', "kind": "Pod"}')
        assert (refused.status, 'duplicate field "kind"' in refused.value["message"]) == (400, True)
        many = {"metadata": {"name": "b"}, **{f"unknown{number}": 1 for number in range(5000)}}
        assert len((await ask("POST", CONFIGS, many)).warnings) < 200, "clients read 100 to 200 headers"


async def test_messages_of_protobuf_may_be_anything(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    identity = b"\x0a\x0f" + b"\x0a\x02v1" + b"\x12\x09ConfigMap"
    whole = b"k8s\x00" + identity + b"\x12\x05\x0a\x03\x0a\x01p"
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)

        async def send(body: bytes) -> ApiAnswer:
            answer = await ask("POST", CONFIGS, body, kind=PROTOBUF, dryRun="All")
            check(answer)
            return answer

        assert (await send(whole)).value["metadata"]["name"] == "p"
        for end in range(len(whole)):
            await send(whole[:end])
        for place in range(4, len(whole)):
            for other in (0x00, 0x7F, 0xFF):
                await send(whole[:place] + bytes([other]) + whole[place + 1 :])
        nested = b"k8s\x00" + identity + b"\x12\xff\xff\xff\xff\x0f"
        assert (await send(nested)).status == 400
        answer = await ask("POST", CONFIGS, whole[4:], kind=PROTOBUF)
        assert (answer.status, answer.value["message"]) == (
            400,
            "the body does not begin as an object in protobuf form does",
        )


SEGMENTS: Final = (
    *("api", "apis", "v1", "apps", "namespaces", "default", "pods", "configmaps", "kept", "status", "log", "exec"),
    *("scale", "proxy", "nodes", "n1", "openapi", "v3", "", ".", "..", "%2F", "%2e%2e", "%00", "%ff", "%", "*"),
    *("x" * 5000, "plugbay", "devices", "version", "eviction", "binding", "attach", "portforward", "token"),
)
PLACES: Final = (PODS, CONFIGS, f"{CONFIGS}/kept", f"{PODS}/p/log", f"{PODS}/p/exec", "/api/v1/nodes/n1", "/openapi/v3")
NAMES: Final = (
    *("watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector"),
    *("dryRun", "fieldManager", "fieldValidation", "force", "sendInitialEvents", "includeObject", "pretty", "unknown"),
    *(
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "container",
        "tailLines",
        "sinceTime",
        "command",
        "",
    ),
)
VALUES: Final = (
    *("true", "false", "0", "-1", "9" * 18, "9" * 30, "All", "a=b", "a in (b", "!a,", "metadata.name=x", "Exact", ""),
    *("%00", "%ff", "%ed%a0%80", "x" * 3000, "a%0d%0aX:%20y", "2006-01-02T15:04:05Z", "eyJ2IjoxfQ==", "\u00b2"),
)
VERBS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "WATCH", "g")


def any_target(chance: Random) -> str:
    path = chance.choice(PLACES)
    if chance.random() < 0.5:
        path = "/" + "/".join(chance.choices(SEGMENTS, k=chance.randrange(8)))
    pairs = [f"{chance.choice(NAMES)}={quote(chance.choice(VALUES), safe='%')}" for _ in range(chance.randrange(4))]
    # A watch that is not ended by an error ends by itself.
    return f"{path}?{'&'.join([*pairs, 'timeoutSeconds=1'] if 'watch=' in ''.join(pairs) else pairs)}"


@pytest.mark.parametrize("number", [300, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_any_verb_may_come_to_any_place(root: Path, caplog: pytest.LogCaptureFixture, number: int) -> None:
    chance = Random(18)
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)
        for _ in range(number):
            verb, target = chance.choice(VERBS), any_target(chance)
            body = chance.choice([None, b"{}", b"[]", b"x", b'{"metadata": {"name": "other"}}'])
            answer = await ask(
                verb, target, body, kind=chance.choice(["", MERGE, APPLY, PROTOBUF, "\u00e9;", "x" * 300])
            )
            assert answer.status not in (500, 502, 503), (verb, target, answer.value)
            if answer.status >= 400 and verb != "HEAD":
                assert (answer.value["kind"], answer.value["code"]) == ("Status", answer.status), (verb, target)


async def test_a_parameter_has_one_value(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with attacked_node(root, caplog) as node:
        ask = ApiCaller(node.config.control_socket)
        for query in ("dryRun=All&dryRun=", "dryRun=&dryRun=All"):
            answer = await ask("POST", f"{CONFIGS}?{query}", {"metadata": {"name": "a"}})
            check(answer)
            assert answer.status == 400
        assert (await ask("GET", f"{CONFIGS}/a")).status == 404, "a request for a rehearsal made an object"
        assert (await ask("POST", f"{CONFIGS}?dryRun=All&dryRun=All", {"metadata": {"name": "a"}})).status == 201


async def test_large_slow_and_silent_clients_cost_little(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    request = f"{CONFIGS} HTTP/1.1\r\nHost: plugbay\r\nContent-Type: application/json\r\n"
    async with attacked_node(root, caplog) as node:
        path, ask = node.config.control_socket, ApiCaller(node.config.control_socket)
        large = await ask("POST", CONFIGS, {"metadata": {"name": "a"}, "data": {"k": "x" * 5_000_000}})
        assert (large.status, large.value["reason"]) == (413, "RequestEntityTooLarge")
        async with AsyncExitStack() as slow:
            for sent in (b"P", f"POST {request}".encode(), f"POST {request}Content-Length: 9\r\n\r\n{{".encode()):
                for _ in range(20):
                    wire = await slow.enter_async_context(await connect(path))
                    wire.writer.write(sent)
            watchers = [await slow.enter_async_context(await connect(path)) for _ in range(20)]
            for wire in watchers:
                wire.say(f"GET {CONFIGS}?watch=true HTTP/1.1", "Host: plugbay")
            made = (await ask("POST", CONFIGS, {"metadata": {"name": "a"}})).value
            before = resident_bytes()
            for number in range(60):  # some MB to each watcher, of which none is read
                made["data"] = {"k": str(number % 10) * 100_000}
                status, made, _ = await ask("PUT", f"{CONFIGS}/a", made)
                assert status == 200
            grown = resident_bytes() - before
            assert grown < 60_000_000, "what 20 watchers do not read is kept once, if at all"
        stale = await ask("PUT", f"{CONFIGS}/a", made | {"metadata": made["metadata"] | {"resourceVersion": "1"}})
        check(stale)
        assert (stale.status, (await ask("GET", f"{CONFIGS}/a")).value) == (409, made)


def resident_bytes() -> int:
    """Of this process, in which the node runs."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
