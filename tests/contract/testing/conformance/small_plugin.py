"""A device plugin with two devices and one flaw: ``python small_plugin.py FLAW KUBELET_ROOT``; ``none`` has none."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device, PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.health import unhealthy
from plugbay.model.ids import DeviceId
from plugbay.testing import FakePlugin, fake_plugin, fake_watched_plugin, refusing
from plugbay.wire.device_list import encode_devices
from plugbay.wire.plugin_server import PreferenceRequest
from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginInfo
from plugbay.wire.registration import Registration, register

RESOURCE = "example.com/small"
OTHER_RESOURCE = "example.com/other"
DEVICE_DIRECTORY = "small-devices"
"""Beside the kubelet's root; with it, there is a device for each file."""
DEVICES = (Device("d1"), Device("d2"))
LATE_S = 7.0
STREAMS_APART_S = 3.0
TOLD: Final[Mapping[str, Callable[[int], int]]] = {
    "oldest stream only": lambda _: 0,
    "newest stream only": lambda _: -1,
    "streams in turn": lambda turn: turn % 2,
}
"""The flaws by which each change goes to one stream only: which that is, by the number of changes so far."""
_COUNTER = itertools.count()
AllocateAnswer = Callable[[Sequence[DeviceId]], Awaitable[ContainerEdits | None]]


async def main(flaw: str, root: Path) -> None:
    """Serve until SIGTERM."""
    port = socket.create_server(("127.0.0.1", 0)) if flaw == "has a port" else None
    try:
        await serve(flaw, root)
    finally:
        if port is not None:
            port.close()


async def serve(flaw: str, root: Path) -> None:
    paths = KubeletPaths(root)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    while not paths.registration_socket.exists():  # a kubelet that starts later removes our socket
        if flaw == "ends without kubelet":
            raise SystemExit(1)
        await asyncio.sleep(0.05)
    devices: tuple[Device, ...] = (Device(f"d{os.getpid()}"),) if flaw == "unstable IDs" else DEVICES
    if (places := root.with_name(DEVICE_DIRECTORY)).is_dir():
        devices = tuple(Device(path.name) for path in sorted(places.iterdir()))
    options = PluginOptions(
        get_preferred_allocation_available=flaw == "no preferences", pre_start_required=flaw == "no pre-start"
    )
    async with fake_plugin(RESOURCE, paths.device_plugins / "small.sock", devices, options=options) as plugin:
        _spoil(plugin, flaw)
        if flaw == "serves late":
            (paths.device_plugins / "small.sock").unlink()
        async with _watched(paths, flaw):
            await _keep_registered(plugin, paths, flaw, ended)


@asynccontextmanager
async def _watched(paths: KubeletPaths, flaw: str) -> AsyncIterator[None]:
    """Put a socket into plugins_registry, beside the registration, for the flaws that are about it."""
    endpoint = str(paths.device_plugins / "small.sock")
    place = paths.plugins_registry / "small.sock"
    infos = {
        "watched with a bad name": PluginInfo(DEVICE_PLUGIN, "small", endpoint, ("v1beta1",)),
        "watched as another type": PluginInfo("CSIPlugin", OTHER_RESOURCE, endpoint, ("v1beta1",)),
        "watched in another version": PluginInfo(DEVICE_PLUGIN, OTHER_RESOURCE, endpoint, ("v1alpha",)),
        "watched too": PluginInfo(DEVICE_PLUGIN, RESOURCE, "", ("v1beta1",)),
        "watched at the same socket": PluginInfo(DEVICE_PLUGIN, OTHER_RESOURCE, endpoint, ("v1beta1",)),
        "watched and refuses": PluginInfo(DEVICE_PLUGIN, OTHER_RESOURCE, "", ("v1beta1",)),
    }
    if flaw == "watched without a server":
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(place))
        yield
    elif flaw in infos:
        async with fake_watched_plugin(infos[flaw].name, place, DEVICES, info=infos[flaw]) as watched:
            if flaw == "watched and refuses":
                watched.notify_answer = refusing(RpcCode.UNIMPLEMENTED, "not written yet")
            yield
    else:
        yield


async def _keep_registered(plugin: FakePlugin, paths: KubeletPaths, flaw: str, ended: asyncio.Event) -> None:
    while not ended.is_set():
        try:
            await _register(plugin, paths, flaw)
            break
        except RpcFailed:
            if flaw == "gives up":
                break
            await asyncio.sleep(0.01 if flaw == "storms" else 0.3)
    if flaw in ("registers again", "registers twice"):
        await asyncio.sleep(1.5 if flaw == "registers again" else 0)
        await _register(plugin, paths, flaw)
    if flaw == "two resources at one socket":
        other = Registration("v1beta1", "small.sock", OTHER_RESOURCE)
        await register(paths.registration_socket, other, options=PluginOptions(), timeout_s=20)
    if (places := paths.root.with_name(DEVICE_DIRECTORY)).is_dir():
        await _follow(plugin, places, flaw, ended)
    if flaw == "ends the stream":
        await asyncio.sleep(1.0)
        plugin.end_streams()
    while flaw == "sends all the time" and not ended.is_set():
        plugin.send(DEVICES)
        await asyncio.sleep(0.2)
    await ended.wait()


async def _follow(plugin: FakePlugin, places: Path, flaw: str, ended: asyncio.Event) -> None:
    """List a device for each file; one that holds ``bad`` is not healthy."""
    known: tuple[Device, ...] = tuple(Device(path.name) for path in sorted(places.iterdir()))
    failed: set[str] = set()
    turns = itertools.count()
    while not ended.is_set():
        found = tuple(_device(path, failed, flaw) for path in sorted(places.iterdir()))
        if found != known:
            if flaw == "notices late":
                flaw = "none"  # from now on: one late list is enough
                await asyncio.sleep(LATE_S)
            if not found and flaw == "ends when empty":
                plugin.end_streams()
            elif flaw == "partial lists" and len(found) < len(known):
                plugin.send(found[-1:])
            elif flaw in TOLD and len(plugin._streams) > 1:
                told = list(plugin._streams)[TOLD[flaw](next(turns))]
                told.put_nowait(encode_devices(found))
            elif flaw == "streams apart" and len(plugin._streams) > 1:
                flaw = "none"  # from now on: once is enough
                oldest, *others = plugin._streams
                oldest.put_nowait(encode_devices(found))
                await asyncio.sleep(STREAMS_APART_S)
                for told in others:
                    told.put_nowait(encode_devices(found))
            else:
                plugin.send(found)
        known = found
        await asyncio.sleep(0.05)


def _device(path: Path, failed: set[str], flaw: str) -> Device:
    if path.read_text() == "bad" or (flaw == "one-way health" and path.name in failed):
        failed.add(path.name)
        return Device(path.name, health=unhealthy("Broken"))
    return Device(path.name)


async def _register(plugin: FakePlugin, paths: KubeletPaths, flaw: str) -> None:
    registration = Registration(
        "v1alpha" if flaw == "wrong version" else "v1beta1",
        "../device-plugins/small.sock" if flaw == "path in endpoint" else "small.sock",
        "small" if flaw == "bad name" else RESOURCE,
    )
    options = PluginOptions(pre_start_required=flaw == "other options")
    await register(paths.registration_socket, registration, options=options, timeout_s=3 if flaw == "hasty" else 20)


def _spoil(plugin: FakePlugin, flaw: str) -> None:
    if flaw != "prefers unasked":
        plugin.prefer_answer = _no_preference
    match flaw:
        case "refuses options":
            plugin.options_answer = RpcFailed(RpcCode.INTERNAL, "no options today")
        case "no preferences":
            plugin.prefer_answer = refusing(RpcCode.UNIMPLEMENTED, "not written yet")
        case "no pre-start":
            plugin.pre_start_answer = refusing(RpcCode.UNIMPLEMENTED, "not written yet")
        case "silent":
            plugin._message = None
        case "duplicate IDs":
            plugin.send_raw(encode_devices([Device("d1")]) + encode_devices([Device("d1")]))
        case "not UTF-8":
            plugin.send_raw(encode_devices([Device("d1")]).replace(b"d1", b"\xff\xfe"))
        case "odd health":
            plugin.send_raw(encode_devices(DEVICES).replace(b"Healthy", b"healthy"))
        case "negative node":
            plugin.send_raw(_with_node_minus_one())
        case "unknown kills" | "odd request kills" | "any ID" | "no preferences":
            plugin.allocate_answer = _careless(flaw)
        case _:
            plugin.allocate_answer = _answers(flaw)


async def _no_preference(_: PreferenceRequest) -> Sequence[DeviceId]:
    return ()


def _with_node_minus_one() -> bytes:
    from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb

    message = pb.ListAndWatchResponse()
    message.devices.add(ID="d1", health="Healthy").topology.nodes.add(ID=-1)
    return message.SerializeToString()


def _careless(flaw: str) -> AllocateAnswer:
    async def answer(ids: Sequence[DeviceId]) -> ContainerEdits:
        if flaw == "unknown kills" and not set(ids) <= {"d1", "d2"}:
            os._exit(7)
        if flaw == "odd request kills" and not ids:
            os._exit(7)
        if flaw == "odd request kills" and not set(ids) <= {"d1", "d2"}:
            raise RpcFailed(RpcCode.INVALID_ARGUMENT, "unknown device")
        return ContainerEdits(env={"DEVICES": ",".join(sorted(ids))})

    return answer


def _answers(flaw: str) -> AllocateAnswer:
    async def answer(ids: Sequence[DeviceId]) -> ContainerEdits | None:
        if not ids or (not set(ids) <= {each.id for each in DEVICES} and flaw != "unstable IDs"):
            raise RpcFailed(RpcCode.INVALID_ARGUMENT, f"unknown devices: {', '.join(ids)}")
        match flaw:
            case "cannot allocate":
                raise RpcFailed(RpcCode.INTERNAL, "out of order")
            case "no response":
                return None
            case "hangs":
                await asyncio.get_running_loop().create_future()
            case "slow":
                await asyncio.sleep(1.2)
            case "changes its mind":
                return ContainerEdits(env={"TICKET": str(next(_COUNTER))})
            case "first device only":
                return ContainerEdits(device_nodes=[DeviceNode("/dev/null" if ids[0] == "d1" else "/dev/zero")])
            case "bad edits":
                return ContainerEdits(
                    env={"": "x"},
                    device_nodes=[DeviceNode("/dev/plugbay-nothing", permissions="rwx"), DeviceNode("/etc/hostname")],
                    mounts=[Mount("/nothing/here", container_path="lib"), Mount("/etc", container_path="lib")],
                    annotations={"a b": "c", "cdi.k8s.io/x": "gpu0"},
                    cdi_devices=["gpu0", "example.com/small=nowhere"],
                )
        return ContainerEdits(env={"DEVICES": ",".join(sorted(set(ids)))})

    return answer


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
