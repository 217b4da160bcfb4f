"""Traffic of a pod shaped by the official bandwidth plugin: what its annotations come to, and what really passes."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import why_not
from tests.contract.rigs.private_machine import needs_private_machine, private_machine
from tests.e2e.test_oci_node import PYTHON, Node, nothing_left, plugbay

__all__ = ["nothing_left", "plugbay"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.timeout(120),
]

# Slow, and one of the rates for which the plugin's arithmetic, wrapped at 2^32, leaves a bucket that is soon emptied.
ANNOTATION: Final = "15600k"
RATE: Final = 15_600_000 // 8
TICKS_PER_US: Final = 15.625
LARGEST_PACKET: Final = 64 * 1024
"""Of what offloading hands over as one."""

MEASURE: Final = """
import json, socket, sys, time

def measure(peer, rate, burst):
    # Both ends of the span are outside of it: nothing passes before the other side is told, all read has passed.
    start = time.monotonic()
    peer.sendall(b"g")
    total = elapsed = 0
    while elapsed < 3 or (total - burst < 0.8 * rate * elapsed and elapsed < 25):
        total += len(peer.recv(65536))
        elapsed = time.monotonic() - start
    return json.dumps([total, elapsed])

def pour(peer):
    peer.recv(1)
    try:
        while True: peer.sendall(bytes(65536))
    except OSError: pass
"""
SERVER: Final = (
    MEASURE
    + """
server = socket.create_server(("", 80))
print("listens", flush=True)
for _ in range(2):
    peer = server.accept()[0]
    if peer.recv(1) == b"u": pour(peer)
    else: print(measure(peer, float(sys.argv[1]), float(sys.argv[2])), flush=True); peer.close()
time.sleep(600)
"""
)
DOWNLOAD: Final = (
    MEASURE
    + """
peer = socket.create_connection((sys.argv[1], 80), timeout=30)
peer.sendall(b"d")
pour(peer)
"""
)
UPLOAD: Final = (
    MEASURE
    + """
peer = socket.create_connection((sys.argv[1], 80), timeout=30)
peer.sendall(b"u")
print(measure(peer, float(sys.argv[2]), float(sys.argv[3])))
"""
)


def bucket(rate: int) -> float:
    """Bytes that pass at once, of a burst of 2^32-1 bits: the plugin's 32-bit arithmetic, as measured."""
    usec = int((2**32 - 1) // 8 * 10**6 / rate) % 2**32
    ticks = int(usec * TICKS_PER_US) % 2**32
    return rate * (ticks // TICKS_PER_US) / 10**6


def assert_shaped(measured: str, burst: float) -> None:
    total, elapsed = json.loads(measured)
    steady = (total - burst) / elapsed
    assert 0.8 * RATE <= steady <= RATE + LARGEST_PACKET / elapsed, (total, elapsed, steady)


@needs_private_machine
async def test_transfers_keep_to_the_annotated_limits(plugbay: Plugbay, nothing_left: Any) -> None:
    """A bucket lets through no more than its size and its rate; a machine that is too busy for that is given time."""
    limits = dict.fromkeys(("kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth"), ANNOTATION)
    burst = bucket(RATE)
    numbers = (str(RATE), str(burst))
    assert burst < RATE, "else the transfers would be over before the limit is felt"
    async with private_machine() as machine:
        node = Node(machine, plugbay)
        async with node.up() as process:
            await node.run("web", PYTHON, "-c", SERVER, *numbers, annotations=limits)
            await plugbay.until_running("web")
            shapers = [each["options"] for each in await machine.shapers()]
            assert [(each["rate"], each["burst"]) for each in shapers] == [(RATE, pytest.approx(burst, abs=1))] * 2
            async with plugbay.start("pod", "logs", "-f", "web") as log:
                await plugbay.line_with(log, "listens")
                ip = (await node.pod("web"))["status"]["podIP"]
                uploaded = await machine.python(UPLOAD, ip, *numbers)
                await machine.python(DOWNLOAD, ip)
                downloaded = await plugbay.line_with(log, "[")
            assert_shaped(uploaded, burst)
            assert_shaped(downloaded, burst)
            assert (await plugbay("pod", "delete", "--all", "--now")).code == 0
            await nothing_left(machine)
            process.terminate()
            await process.wait()
