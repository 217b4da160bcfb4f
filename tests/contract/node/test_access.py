"""The API over TCP: only with TLS, only with the token, and at the same place after a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from plugbay.errors import SocketInUse
from plugbay.node.access.certificate import make_certificates
from plugbay.node.config import NodeConfig
from plugbay.node.run import open_node, run_node
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.contract.rigs.api_calls import ApiCaller
from tests.contract.rigs.node_run import DEADLINE_S

END = "-----END CERTIFICATE-----\n"
ANY_PORT = TcpAddress("127.0.0.1", 0)


@pytest.fixture
def root(sockets: Path) -> Path:
    return sockets


class Way(NamedTuple):
    """The way to an API, as its kubeconfig tells it."""

    server: str
    authority: str
    token: str

    def ask(
        self, path: str, *, token: str | None = None, method: str = "GET", body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Ask as a client does that trusts the authority only."""
        context = ssl.create_default_context(cadata=self.authority)
        address = urlsplit(self.server)
        connection = HTTPSConnection(str(address.hostname), address.port, timeout=DEADLINE_S, context=context)
        with closing(connection):
            given = self.token if token is None else token
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, headers={"Authorization": f"Bearer {given}", **headers})
            response = connection.getresponse()
            return response.status, json.loads(response.read())


@asynccontextmanager
async def node_with_api(root: Path, address: TcpAddress = ANY_PORT) -> AsyncIterator[Way]:
    config = NodeConfig(root, name="n1", api=address)
    async with open_node(config, environ=os.environ, clock=SystemClock()):
        content = yaml.safe_load(config.kubeconfig.read_text())
        [cluster], [user] = content["clusters"], content["users"]
        authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
        yield Way(cluster["cluster"]["server"], authority, user["user"]["token"])


async def test_the_owner_acts_as_a_user_with_that_users_rights(root: Path) -> None:
    async with node_with_api(root) as way:
        robot = {"Impersonate-User": "system:serviceaccount:default:default"}
        status, refused = await asyncio.to_thread(way.ask, "/api/v1/nodes", **robot)
        assert status == 403
        assert 'User "system:serviceaccount:default:default" cannot list resource "nodes"' in refused["message"]
        assert (await asyncio.to_thread(way.ask, "/api/v1", **robot))[0] == 200
        masters = robot | {"Impersonate-Group": "system:masters"}
        assert (await asyncio.to_thread(way.ask, "/api/v1/nodes", **masters))[0] == 200
        assert (await asyncio.to_thread(way.ask, "/api/v1", **{"Impersonate-Group": "a"}))[0] == 400
        ask = ApiCaller(root / "plugbay.sock")
        token = (await ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {})).value["status"]
        status, refused = await asyncio.to_thread(way.ask, "/api/v1", token=token["token"], **masters)
        assert (status, "cannot act as another user" in refused["message"]) == (403, True)


async def test_a_right_to_write_roles_is_not_the_right_to_everything(root: Path) -> None:
    """Nor is the right to change objects the one to make them."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["patch", "update"]},
    ]
    account = [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}]
    apply = "application/apply-patch+yaml"

    def bound(role: str) -> dict[str, Any]:
        name = {"metadata": {"name": f"b-{role}"}}
        return {**name, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": account}

    async with node_with_api(root) as way:
        ask = ApiCaller(root / "plugbay.sock")
        await ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": "writer"}, "rules": rules})
        assert (await ask("POST", f"{rbac}/clusterrolebindings", bound("writer"))).status == 201
        token = (await ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {})).value["status"]

        async def send(method: str, path: str, body: object, kind: str = "application/json") -> int:
            sending = {"token": token["token"], "method": method, "body": body, "Content-Type": kind}
            return (await asyncio.to_thread(way.ask, path, **sending))[0]

        everything = {
            "metadata": {"name": "writer"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }
        assert await send("POST", f"{rbac}/clusterrolebindings", bound("writer") | {"metadata": {"name": "x"}}) == 201
        assert await send("POST", f"{rbac}/clusterrolebindings", bound("cluster-admin")) == 403
        assert await send("PUT", f"{rbac}/clusterroles/writer", everything) == 403
        added = [{"op": "replace", "path": "/rules/1/verbs/0", "value": "delete"}]
        assert await send("PATCH", f"{rbac}/clusterroles/writer", added, "application/json-patch+json") == 403
        applied = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **everything}
        assert await send("PATCH", f"{rbac}/clusterroles/writer?fieldManager=a&force=1", applied, apply) == 403

        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
        place = "/api/v1/namespaces/default"
        assert await send("PATCH", f"{place}/configmaps/c?fieldManager=a", config, apply) == 403
        assert (await ask("POST", f"{place}/configmaps", config)).status == 201
        assert await send("PATCH", f"{place}/configmaps/c?fieldManager=a", config, apply) == 200
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "command": ["true"]}]}}
        assert await send("PUT", f"{place}/pods/p", pod) == 404, "an update makes nothing"
        assert (
            await send("PATCH", f"{place}/pods/p?fieldManager=a", {"apiVersion": "v1", "kind": "Pod", **pod}, apply)
            == 403
        )


async def test_a_token_of_an_account_is_served_until_the_account_goes(root: Path) -> None:
    async with node_with_api(root) as way:
        ask = ApiCaller(root / "plugbay.sock")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        token = (await ask("POST", f"{account}/token", {})).value["status"]["token"]
        elsewhere = (await ask("POST", f"{account}/token", {"spec": {"audiences": ["vault"]}})).value["status"]["token"]
        assert (await asyncio.to_thread(way.ask, "/api/v1", token=token))[0] == 200
        assert (await asyncio.to_thread(way.ask, "/api/v1/nodes", token=token))[0] == 403, "no role says that it may"
        assert (await asyncio.to_thread(way.ask, "/api/v1", token=elsewhere))[0] == 401
        assert (await asyncio.to_thread(way.ask, "/api/v1", token=f"{token[:-4]}AAAA"))[0] == 401
        await ask("DELETE", account)
        assert (await asyncio.to_thread(way.ask, "/api/v1", token=token))[0] == 401


async def test_a_client_with_the_kubeconfig_is_served(root: Path) -> None:
    async with node_with_api(root) as way:
        status, nodes = await asyncio.to_thread(way.ask, "/api/v1/nodes")
        assert status == 200
        assert [each["metadata"]["name"] for each in nodes["items"]] == ["n1"]
        for file in (root / "kubeconfig", *(root / "api").iterdir()):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE((root / "api").stat().st_mode) == 0o700
    assert not (root / "kubeconfig").exists()


@pytest.mark.parametrize("token", ["", "wrong", "\u00e9", "x" * 10_000])
async def test_without_the_token_nothing_is_told(root: Path, token: str) -> None:
    async with node_with_api(root) as way:
        for path in ("/api/v1/nodes", "/healthz", "/nothing"):
            status, answer = await asyncio.to_thread(way.ask, path, token=token)
            assert (status, answer["reason"], answer["message"]) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:6443", 200),
        ("n1", 200),
        ("[::1]:80", 200),
        ("10.0.0.1", 200),
        ("evil.example.com", 421),
        ("evil.example.com:80", 421),
    ],
)
async def test_a_host_that_is_not_meant_is_refused(root: Path, host: str, status: int) -> None:
    async with node_with_api(root) as way:
        assert (await asyncio.to_thread(way.ask, "/api/v1/nodes", Host=host))[0] == status


async def test_what_is_not_tls_is_disconnected_and_others_are_served(root: Path) -> None:
    async with node_with_api(root) as way:
        address = urlsplit(way.server)

        def speak(said: bytes) -> bytes:
            with socket.create_connection((address.hostname, address.port), timeout=DEADLINE_S) as client:
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                heard = b""
                try:
                    while chunk := client.recv(4096):
                        heard += chunk
                except ConnectionError:
                    pass
                return heard

        silent = socket.create_connection((address.hostname, address.port))
        with closing(silent):
            for said in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100, b""):
                assert b"items" not in await asyncio.to_thread(speak, said)
            assert (await asyncio.to_thread(way.ask, "/api/v1/nodes"))[0] == 200


async def test_a_client_that_does_not_know_the_authority_does_not_send_its_token(root: Path) -> None:
    async with node_with_api(root) as way:
        _, another, _ = make_certificates(["127.0.0.1"], datetime.now(UTC)).split(END)
        stranger = way._replace(authority=another + END)
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(stranger.ask, "/api/v1/nodes")


async def test_a_restarted_node_has_the_same_address_token_and_authority(root: Path) -> None:
    async with node_with_api(root) as before:
        pass
    async with node_with_api(root) as after:
        assert after == before
        assert (await asyncio.to_thread(before.ask, "/api/v1/nodes"))[0] == 200


async def test_a_port_that_is_taken_meanwhile_is_not_waited_for(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with node_with_api(root) as before:
        pass
    port = urlsplit(before.server).port
    assert port is not None
    with socket.create_server(("127.0.0.1", port)):
        async with node_with_api(root) as after:
            assert after.server != before.server
            assert f"port {port}, where the API was before, is in use" in caplog.text
            assert (await asyncio.to_thread(after.ask, "/api/v1/nodes"))[0] == 200


async def test_a_port_that_was_asked_for_and_is_taken_stops_the_start(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = NodeConfig(root, name="n1", api=TcpAddress("127.0.0.1", taken.getsockname()[1]))
        with pytest.raises(SocketInUse):
            await run_node(
                config,
                environ=os.environ,
                clock=SystemClock(),
                stop=asyncio.Event(),
                ready=lambda: pytest.fail("ready"),
            )


@pytest.mark.parametrize("name", ["certificate.pem", "names", "token", "port"])
@pytest.mark.parametrize("content", [b"", b"broken\n", None])
async def test_keys_that_are_gone_or_broken_are_made_anew(root: Path, name: str, content: bytes | None) -> None:
    async with node_with_api(root):
        pass
    path = root / "api" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    async with node_with_api(root) as way:
        assert (await asyncio.to_thread(way.ask, "/api/v1/nodes"))[0] == 200
