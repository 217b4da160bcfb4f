"""The limits of the transport: paths of sockets and sizes of messages."""

from __future__ import annotations

import socket
from pathlib import Path

import grpc
import pytest

from plugbay.errors import PathTooLong, PathUnusable
from plugbay.model.devices import Device, PluginOptions
from plugbay.testing.fakes.plugin import fake_plugin
from plugbay.wire.device_list import encode_devices
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.sockets import MAX_SOCKET_PATH_BYTES
from tests.contract.rigs.wire import G2, failure_of, open_raw, pair, path

__all__ = ["path"]


@pytest.mark.parametrize(
    "name", ["a b.sock", "100%.sock", "%20.sock", "é.sock", "a:b#c?d.sock", b"\xff.sock"], ids=repr
)
async def test_any_file_name_can_be_a_socket(sockets: Path, name: str | bytes) -> None:
    path = sockets / (name if isinstance(name, str) else name.decode(errors="surrogateescape"))
    async with pair(path) as (_, client):
        assert path.is_socket()
        assert await client.options() == PluginOptions()
    assert not path.exists()


async def test_the_longest_path(sockets: Path) -> None:
    path = sockets / ("s" * (MAX_SOCKET_PATH_BYTES - len(bytes(sockets)) - 1))
    async with pair(path) as (_, client):
        assert await client.options() == PluginOptions()


async def test_a_longer_path_is_refused(sockets: Path) -> None:
    path = sockets / ("s" * (MAX_SOCKET_PATH_BYTES - len(bytes(sockets))))
    with pytest.raises(PathTooLong, match="108 bytes"):
        async with serve_grpc(path, []):
            pass


async def test_a_missing_directory_is_named(sockets: Path) -> None:
    with pytest.raises(PathUnusable, match=r"missing: cannot make a socket here: No such file or directory"):
        async with serve_grpc(sockets / "missing" / "x.sock", []):
            pass


async def test_a_stale_socket_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with pair(path) as (_, client):
        assert await client.options() == PluginOptions()


async def test_a_message_of_four_mebibytes_passes(path: Path) -> None:
    async with pair(path) as (plugin, client):
        lists = client.lists()
        await anext(lists)
        plugin.send_raw(padded_list(MAX_MESSAGE_BYTES))
        assert [device.id for device in (await anext(lists)).devices] == [G2]


async def test_a_larger_list_ends_the_stream(path: Path) -> None:
    async with pair(path) as (plugin, client):
        lists = client.lists()
        await anext(lists)
        plugin.send_raw(padded_list(MAX_MESSAGE_BYTES + 1))
        text = f"grpc: received message larger than max ({MAX_MESSAGE_BYTES + 1} vs. {MAX_MESSAGE_BYTES})"
        assert str(await failure_of(anext(lists))) == f"rpc error: code = ResourceExhausted desc = {text}"


async def test_a_larger_request_is_refused(path: Path) -> None:
    async with fake_plugin("example.com/gopher", path), open_raw(path, "/v1beta1.DevicePlugin/Allocate") as call:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(bytes(MAX_MESSAGE_BYTES + 1))
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def padded_list(size: int) -> bytes:
    """A list of ``size`` bytes with the device g2; the rest is a field nobody knows."""
    devices = encode_devices([Device(G2)])
    filling = size - len(devices) - 2 - 4
    length = bytes([filling & 0x7F | 0x80, filling >> 7 & 0x7F | 0x80, filling >> 14 & 0x7F | 0x80, filling >> 21])
    return devices + b"\xfa\x3f" + length + bytes(filling)
