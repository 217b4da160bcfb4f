"""The HTTP client on servers that are absent, dead, silent or gone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from plugbay.errors import NodeUnreachable, UsageError
from plugbay.ops.http import serve_http
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import UnixAddress
from plugbay.ops.routing import Router
from tests.contract.rigs.http_requests import DEADLINE_S, Site, ask, path, status_of

__all__ = ["path"]


def test_an_absent_socket_is_named(path: Path) -> None:
    with pytest.raises(NodeUnreachable, match=rf"{path} \(there is no such socket\)"):
        UnixHttpClient(path).request("GET", "/")


def test_a_dead_socket_is_named(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NodeUnreachable, match="nothing is listening"):
        UnixHttpClient(path).request("GET", "/")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may connect everywhere")
async def test_a_closed_socket_is_named(path: Path) -> None:
    async with serve_http(Site().router, UnixAddress(path)):
        path.chmod(0)
        with pytest.raises(NodeUnreachable, match="permission denied"):
            await ask(path, "GET", "/")


def test_a_server_that_has_come_meanwhile_answers(path: Path) -> None:
    """Just after nobody did, and without being seen to come."""
    with socket.socket(socket.AF_UNIX) as server:

        def come() -> None:
            server.bind(str(path))
            server.listen()

        with pytest.raises(NodeUnreachable, match=r"no answer within 0\.05 s"):
            UnixHttpClient(path, timeout_s=0.05, wait_for_server=come).request("GET", "/")


def test_a_path_too_long_to_connect_is_an_answer_too(path: Path) -> None:
    with pytest.raises(NodeUnreachable, match="path too long"):
        UnixHttpClient(path.with_name("x" * 108)).request("GET", "/")


def test_a_server_that_says_nothing_is_given_up(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(NodeUnreachable, match=r"no answer within 0\.05 s"):
            UnixHttpClient(path, timeout_s=0.05).request("GET", "/")


async def test_a_server_that_hangs_up_is_named(path: Path) -> None:
    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with asyncio.timeout(DEADLINE_S), await asyncio.start_unix_server(hang_up, str(path)):
        with pytest.raises(NodeUnreachable, match="the connection broke off"):
            await ask(path, "GET", "/")


async def test_a_refused_large_body_is_told_the_reason(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        response = await ask(path, "POST", "/json", b"x" * (16 * 1024 * 1024))
    assert status_of(response.body) == (
        413,
        "RequestEntityTooLarge",
        "the request body is larger than 4194304 bytes",
    )


def test_the_client_imports_no_http_library_before_it_is_used() -> None:
    source = "import sys, plugbay.ops.http_client; sys.exit('http.client' in sys.modules or 'asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True, timeout=DEADLINE_S)


async def test_a_missing_h11_is_one_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h11", None)
    for name in [each for each in sys.modules if each.startswith("plugbay.ops.http_")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UsageError, match="pip install h11"):
        async with serve_http(Router(), UnixAddress(path)):
            pytest.fail("served without h11")
