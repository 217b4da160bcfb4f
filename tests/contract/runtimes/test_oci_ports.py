"""Ports of pods that the oci runtime has on networks of their own."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from plugbay.errors import PortUnreachable
from plugbay.kernel.netns import in_netns
from plugbay.model.ids import PodUid
from plugbay.runtimes.oci.network import bring_up_loopback
from plugbay.runtimes.sandboxes import Network
from tests.contract.rigs.oci_sandboxes import DEADLINE_S, POD, PROC, SPEC, Place, place

__all__ = ["place"]
pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


async def test_a_port_is_that_of_the_pods_own_loopback(place: Place) -> None:
    """A process of the host that listens on the same port is not met."""
    sandboxes = place.node()
    await sandboxes.run(SPEC)
    (netns,) = place.places.namespaces.iterdir()
    await asyncio.to_thread(bring_up_loopback, netns, proc_root=PROC)
    with socket.create_server(("127.0.0.1", 0)) as of_the_host:
        port = of_the_host.getsockname()[1]
        with pytest.raises(PortUnreachable, match=r"127.0.0.1: connection refused"):
            async with sandboxes.connect(POD, port):
                pass
        with in_netns(netns, lambda: socket.create_server(("127.0.0.1", port))) as of_the_pod:
            async with asyncio.timeout(DEADLINE_S), sandboxes.connect(POD, port) as connection:
                of_the_pod.settimeout(DEADLINE_S)
                peer, _ = await asyncio.to_thread(of_the_pod.accept)
                with peer:
                    await connection.write(b"hello")
                    await connection.end()
                    assert await asyncio.to_thread(peer.recv, 100) == b"hello"
                    assert await asyncio.to_thread(peer.recv, 100) == b""
                    peer.sendall(b"world")
                assert [await connection.read() for _ in range(2)] == [b"world", b""]
    await sandboxes.remove(POD)


async def test_a_pod_on_the_hosts_network_has_the_hosts_ports(place: Place) -> None:
    sandboxes = place.node(Network.HOST)
    await sandboxes.run(SPEC)
    with socket.create_server(("127.0.0.1", 0)) as of_the_host:
        async with asyncio.timeout(DEADLINE_S), sandboxes.connect(POD, of_the_host.getsockname()[1]) as connection:
            peer, _ = of_the_host.accept()
            with peer:
                peer.sendall(b"host")
            assert await connection.read() == b"host"
    await sandboxes.remove(POD)


async def test_a_pod_without_a_sandbox_has_no_ports(place: Place) -> None:
    with pytest.raises(PortUnreachable, match="has no sandbox"):
        async with place.node().connect(PodUid("none"), 80):
            pass


async def test_a_namespace_that_is_gone_is_told_of(place: Place) -> None:
    sandboxes = place.node()
    await sandboxes.run(SPEC)
    (netns,) = place.places.namespaces.iterdir()
    record = Path(place.places.records) / f"{POD}.json"
    assert str(netns) in record.read_text()
    record.write_text(record.read_text().replace(str(netns), f"{netns}-gone"))
    with pytest.raises(PortUnreachable, match="cannot be entered"):
        async with sandboxes.connect(POD, 80):
            pass
    record.write_text(record.read_text().replace(f"{netns}-gone", str(netns)))
    await sandboxes.remove(POD)
