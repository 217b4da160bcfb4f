"""Addresses, host ports and bandwidth of pods whose network a real containerd makes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Final

import pytest

from tests.e2e.bench_cri import (
    Node,
    pid_of,
    pod,
    until_event,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SERVE: Final = "while true; do echo tcp | nc -l -p 8080; done"
ASK: Final = """
import socket, sys, time
kind = socket.SOCK_STREAM if sys.argv[1] == "tcp" else socket.SOCK_DGRAM
deadline = time.monotonic() + 20
while True:
    with socket.socket(socket.AF_INET, kind) as asking:
        asking.settimeout(20)
        try:
            asking.connect((sys.argv[2], int(sys.argv[3])))
            if sys.argv[1] == "udp":
                asking.send(b"udp")
            sys.stdout.write(asking.recv(99).decode())
            break
        except (ConnectionRefusedError, ConnectionResetError):
            # It serves one after the other, and does not listen in between, nor at first.
            if time.monotonic() > deadline:
                raise
    time.sleep(0.02)
"""
ECHO_UDP: Final = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
    echo.bind(("", 5353))
    print("bound", flush=True)
    word, asker = echo.recvfrom(99)
    echo.sendto(word, asker)
"""


async def test_pods_have_addresses_and_host_ports(node: Node) -> None:
    ports = [{"containerPort": 8080, "hostPort": 18080}, {"containerPort": 5353, "hostPort": 15353, "protocol": "UDP"}]
    rates = {"kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "16M"}
    async with node.up():
        await node.apply(pod("serves", SERVE, ports=ports, metadata={"annotations": rates}))
        await node.wait("serves", "condition=Ready")
        status = (await node.pod("serves"))["status"]
        addresses = [each["ip"] for each in status["podIPs"]]
        assert [address.count(":") > 0 for address in addresses] == [False, True]
        assert status["podIP"] == addresses[0]
        done = await node("pod", "exec", "serves", "--", "tail", "-n2", "/etc/hosts")
        assert done.out == f"{addresses[0]}\tserves\n{addresses[1]}\tserves\n"
        ask = (sys.executable, "-c", ASK)
        assert await asyncio.to_thread(node.engine.run, *ask, "tcp", addresses[0], "8080") == "tcp\n"
        assert await asyncio.to_thread(node.engine.run, *ask, "tcp", "127.0.0.1", "18080") == "tcp\n"
        inside = ("nsenter", "--target", str(pid_of(node, await node.pod("serves"))), "--net", sys.executable)
        echo = await asyncio.create_subprocess_exec(*inside, "-c", ECHO_UDP, stdout=subprocess.PIPE)
        await node.line_with(echo, "bound")
        assert await asyncio.to_thread(node.engine.run, *ask, "udp", "127.0.0.1", "15353") == "udp"
        assert await echo.wait() == 0
        shaped = await asyncio.to_thread(node.engine.run, "tc", "qdisc", "show")
        assert sorted(word for word in shaped.split() if word.endswith("Mbit")) == ["16Mbit", "8Mbit"]


async def test_a_bad_bandwidth_is_refused_before_a_sandbox_is_made(node: Node) -> None:
    async with node.up():
        await node.apply(pod("slow", "true", metadata={"annotations": {"kubernetes.io/ingress-bandwidth": "1"}}))
        await until_event(node, "FailedCreatePodSandBox", "unreasonably small")
        assert node.engine.containers() == []
