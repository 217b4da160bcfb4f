"""Ports of pods in networks of their own, forwarded by nodes on real engines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import needs_private_machine, private_machine
from tests.contract.rigs.spdy_client import ControlSocket, forwarded, forwarding, whole
from tests.e2e.bench_cri import Node as CriNode
from tests.e2e.bench_cri import pod
from tests.e2e.test_oci_node import Node as OciNode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PYTHON = str(Path(sys.executable).resolve())
COUNT = """
import socket
with socket.create_server(("127.0.0.1", 7007)) as server:
    print("ready", flush=True)
    while True:
        client, _ = server.accept()
        with client:
            received = 0
            while chunk := client.recv(65536):
                received += len(chunk)
            client.sendall(b"%d" % received)
"""


async def test_a_port_of_a_pod_in_containerd(node: CriNode) -> None:
    inside = node.inside()
    serves = "mkdir /www; echo hello > /www/file; echo ready; exec httpd -f -p 127.0.0.1:7007 -h /www"
    async with inside.up():
        await node.apply(pod("web", serves))
        await node.wait("web", "condition=Ready")
        async with node.start("pod", "logs", "-f", "web") as log:
            await node.line_with(log, "ready")
        async with forwarding(ControlSocket(node.root / "plugbay.sock"), "web") as client:
            for number in range(10):
                data, words = await forwarded(client, 7007, f"web {number}")
                await data.write(b"GET /file HTTP/1.0\r\n\r\n")
                assert (await whole(data)).endswith(b"\r\n\r\nhello\n")
                assert await whole(words) == b""
            _, words = await forwarded(client, 7008, "none")
            assert b"connection refused" in await whole(words)
        await node("pod", "delete", "--all", "--now")


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@needs_private_machine
async def test_a_port_of_a_pod_that_the_oci_runtime_has_put_on_a_network(sockets: Path) -> None:
    plugbay = Plugbay(sockets)
    async with private_machine() as machine:
        node = OciNode(machine, plugbay)
        async with node.up() as process:
            await node.run("web", PYTHON, "-c", COUNT)
            await plugbay.until_running("web")
            async with plugbay.start("pod", "logs", "-f", "web") as log:
                await plugbay.line_with(log, "ready")
            async with forwarding(ControlSocket(sockets / "plugbay.sock"), "web") as client:
                data, words = await forwarded(client, 7007, "0")
                await data.write(b"x" * 3_000_000)
                await data.end()
                assert await whole(data) == b"3000000"
                assert await whole(words) == b""
                _, words = await forwarded(client, 7008, "1")
                assert b"127.0.0.1: connection refused" in await whole(words)
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            process.terminate()
            await process.wait()
