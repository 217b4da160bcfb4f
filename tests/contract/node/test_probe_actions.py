"""Probes of real servers: what is sent, what counts, and the words of what went wrong."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from plugbay.model.actions import GrpcAction, HttpGetAction, HttpScheme, ProbeAction, TcpSocketAction
from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container
from plugbay.model.ports import ContainerPort
from plugbay.ops.changes import Changes
from plugbay.pods.running.probing.actions import ActionTarget, probe_once
from plugbay.pods.running.probing.results import ProbeOutcome, ProbeResult
from plugbay.runtimes.port import ContainerId
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_runtime import FakeRuntime

HOST = "127.0.0.1"
PATIENT_S = 30.0
"""A server that answers at all does so by then, on a loaded machine too."""

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def said(status: str, *headers: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", body]
    return "\r\n".join(lines).encode()


class Server:
    """A server on a free port, whose every connection ``answer`` gets.

    Attributes:
        requests: the heads of the requests that it has read.
    """

    def __init__(self, answer: bytes | Answer) -> None:
        self.requests: list[str] = []
        self.port = 0
        self._answer = answer

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not isinstance(self._answer, bytes):
                await self._answer(reader, writer)
                return
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self._answer.replace(b"PORT", str(self.port).encode()))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes | Answer, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server(answer)
    server = await asyncio.start_server(made.connected, HOST, 0, ssl=context)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """The port of a server that accepts and says nothing, until the block ends."""
    over = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with serving(wait) as server:
        try:
            yield server.port
        finally:
            over.set()


@pytest.fixture
async def free_port() -> int:
    """A port at which nothing listens."""
    server = await asyncio.start_server(lambda reader, writer: None, HOST, 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def probed(action: ProbeAction, *, timeout_s: float = PATIENT_S, port: int = 1) -> ProbeResult:
    container = Container(ContainerName("c"), ports=(ContainerPort(port, name="web"),))
    target = ActionTarget(container, ContainerId("c"), HOST, FakeRuntime(ManualClock(), Changes()))
    return await probe_once(action, target, timeout_s=timeout_s)


# --- HTTP -----------------------------------------------------------------------------------------------------------


async def test_a_request_looks_like_a_kubelets() -> None:
    async with serving(said("200 OK", body="fine")) as server:
        assert await probed(HttpGetAction("web", "/healthz?a=b c"), port=server.port) == ProbeResult(
            ProbeOutcome.SUCCESS
        )
        headers = (("x-b", "2"), ("X-B", "3"), ("accept", ""), ("host", "example.com"), ("user-agent", "me"))
        await probed(HttpGetAction(server.port, "ü%zz", headers=headers))
        assert server.requests == [
            f"GET /healthz?a=b%20c HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: */*\r\n"
            "User-Agent: kube-probe/1.36\r\nConnection: close\r\n\r\n",
            "GET /%C3%BC%25zz HTTP/1.1\r\nHost: example.com\r\nUser-Agent: me\r\nX-B: 2\r\nX-B: 3\r\n"
            "Connection: close\r\n\r\n",
        ]


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_status_that_is_no_success_fails(status: int) -> None:
    async with serving(said(f"{status} No", body="secret")) as server:
        text = f"HTTP probe failed with statuscode: {status}"
        assert await probed(HttpGetAction(server.port)) == ProbeResult(ProbeOutcome.FAILURE, text)


async def test_what_is_said_before_the_answer_does_not_count() -> None:
    async with serving(b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + said("200 OK")) as server:
        assert (await probed(HttpGetAction(server.port))).outcome is ProbeOutcome.SUCCESS


async def test_a_redirect_is_followed_as_long_as_it_stays_on_the_host() -> None:
    async with serving(said("204 Fine")) as target:
        location = f"Location: http://{HOST}:{target.port}/there?x=1"
        async with serving(said("302 Found", location)) as server:
            assert (await probed(HttpGetAction(server.port))).outcome is ProbeOutcome.SUCCESS
        assert target.requests[0].startswith(f"GET /there?x=1 HTTP/1.1\r\nHost: {HOST}:{target.port}\r\n")


async def test_a_redirect_to_another_host_is_a_warning() -> None:
    async with serving(said("301 Moved", "Location: http://example.com/", body="over there")) as server:
        text = "Probe terminated redirects, Response body: over there"
        assert await probed(HttpGetAction(server.port)) == ProbeResult(ProbeOutcome.WARNING, text)


async def test_redirects_without_an_end_fail() -> None:
    async with serving(said("307 Again", "Location: /again")) as server:
        result = await probed(HttpGetAction(server.port))
        text = f'Get "http://{HOST}:{server.port}/again": stopped after 10 redirects'
        assert result == ProbeResult(ProbeOutcome.FAILURE, text)
        assert len(server.requests) == 10


async def test_a_server_that_does_not_answer_in_time_fails() -> None:
    async with silent() as port:
        result = await probed(HttpGetAction(port), timeout_s=0.1)
        why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        assert result == ProbeResult(ProbeOutcome.FAILURE, f'Get "http://{HOST}:{port}/": {why}')


async def test_an_answer_that_does_not_end_in_time_counts_neither_way() -> None:
    over = asyncio.Event()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        await over.wait()

    async with serving(begin) as server:
        result = await probed(HttpGetAction(server.port), timeout_s=3)
        over.set()
    why = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    assert result == ProbeResult(ProbeOutcome.UNFINISHED, why)


async def test_of_a_long_answer_only_the_beginning_is_read() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n" + b"x" * 20_000) as server:
        assert (await probed(HttpGetAction(server.port))).outcome is ProbeOutcome.SUCCESS


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "EOF"),
        (b"HTTP/1.1 101 Up\r\n\r\n", "net/http: HTTP/1.x transport connection broken: malformed HTTP response"),
        (b"SSH-2.0-hello\r\n\r\n", "net/http: HTTP/1.x transport connection broken: malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "unexpected EOF"),
    ],
)
async def test_what_is_not_a_whole_answer_is_told(answer: bytes, problem: str) -> None:
    async with serving(answer) as server:
        result = await probed(HttpGetAction(server.port))
        assert problem in result.text
        assert not result.is_success


async def test_a_port_at_which_nothing_listens_fails(free_port: int) -> None:
    why = f"dial tcp {HOST}:{free_port}: connect: connection refused"
    get = await probed(HttpGetAction(free_port))
    assert get == ProbeResult(ProbeOutcome.FAILURE, f'Get "http://{HOST}:{free_port}/": {why}')
    assert await probed(TcpSocketAction(free_port)) == ProbeResult(ProbeOutcome.FAILURE, why)


@pytest.mark.parametrize("host", ["foo..bar", "a" * 64], ids=["empty label", "long label"])
@pytest.mark.parametrize("scheme", HttpScheme)
async def test_a_host_that_no_machine_can_have_fails(host: str, scheme: HttpScheme) -> None:
    text = f"dial tcp: lookup {host}: no such host"
    assert await probed(TcpSocketAction(80, host=host)) == ProbeResult(ProbeOutcome.FAILURE, text)
    url = f"{scheme.value.lower()}://{host}:80/"
    assert await probed(HttpGetAction(80, host=host, scheme=scheme)) == ProbeResult(
        ProbeOutcome.FAILURE, f'Get "{url}": {text}'
    )


async def test_no_certificate_is_looked_at(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "plugbay.node.access.certificate", "elsewhere", stdout=asyncio.subprocess.PIPE
    )
    made, _ = await process.communicate()
    (tmp_path / "all.pem").write_bytes(made)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "all.pem")
    async with serving(said("200 OK"), context) as server:
        assert (await probed(HttpGetAction(server.port, scheme=HttpScheme.HTTPS))).outcome is ProbeOutcome.SUCCESS


async def test_https_to_a_server_without_tls_fails() -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said("400 Bad Request"))
        await writer.drain()
        writer.close()

    async with serving(complain) as server:
        result = await probed(HttpGetAction(server.port, scheme=HttpScheme.HTTPS))
        why = "http: server gave HTTP response to HTTPS client"
        assert result == ProbeResult(ProbeOutcome.FAILURE, f'Get "https://{HOST}:{server.port}/": {why}')


# --- TCP ------------------------------------------------------------------------------------------------------------


async def test_a_connection_is_enough_for_tcp() -> None:
    async with silent() as port:
        assert await probed(TcpSocketAction("web"), port=port) == ProbeResult(ProbeOutcome.SUCCESS)


async def test_a_port_that_the_container_does_not_name_counts_neither_way() -> None:
    result = await probed(TcpSocketAction("admin"))
    assert result == ProbeResult(ProbeOutcome.UNKNOWN, 'strconv.Atoi: parsing "admin": invalid syntax')


# --- gRPC -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def health_server(statuses: dict[bytes, int] | None) -> AsyncIterator[int]:
    """A server of grpcio's; with None without the health service, with nothing it never answers."""

    async def check(request: bytes, context: object) -> bytes:
        assert statuses is not None
        if not statuses:
            await asyncio.Event().wait()
        return bytes([0x08, statuses[request[2:]]])

    server = grpc.aio.server()
    if statuses is not None:
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(check)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
        )
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def test_a_grpc_server_is_asked_for_its_health() -> None:
    async with health_server({b"": 1, b"gophers": 2}) as port:
        assert await probed(GrpcAction(port)) == ProbeResult(ProbeOutcome.SUCCESS)
        text = 'service unhealthy (responded with "NOT_SERVING")'
        assert await probed(GrpcAction(port, "gophers")) == ProbeResult(ProbeOutcome.FAILURE, text)


async def test_a_grpc_server_without_health_fails() -> None:
    async with health_server(None) as port:
        result = await probed(GrpcAction(port))
        assert result.outcome is ProbeOutcome.FAILURE
        assert result.text.startswith(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        )


async def test_a_grpc_server_that_hangs_fails() -> None:
    async with health_server({}) as port:
        text = "timeout: health rpc did not complete within 3s"
        assert await probed(GrpcAction(port), timeout_s=3) == ProbeResult(ProbeOutcome.FAILURE, text)


async def test_a_port_without_grpc_fails(free_port: int) -> None:
    async with silent() as silent_port:
        for port in (free_port, silent_port):
            why = f'timeout: failed to connect service "{HOST}:{port}" within 1s: context deadline exceeded'
            assert await probed(GrpcAction(port), timeout_s=1) == ProbeResult(ProbeOutcome.FAILURE, why)
