"""A plugin that does what a recording says, and keeps a log in the recording's form."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import FakePlugin
from plugbay.testing.fakes.watched_plugin import FakeWatchedPlugin
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.plugin_server import PreferenceRequest, device_plugin_handler
from plugbay.wire.pluginregistration import PluginInfo, RegistrationStatus, plugin_registration_handler
from plugbay.wire.registration import Registration, register
from tests.replay.aliases import Aliases
from tests.replay.places import Places
from tests.replay.recording import Json, Launch, PluginScript

Log = Callable[[Json], None]


class ScriptedPlugin:
    """One plugin of a recording, over all its processes; kills and restarts happen inside this process.

    Attributes:
        aliases: which device is which.

    Args:
        log: gets rows as in ``plugin_log``.
    """

    def __init__(self, script: PluginScript, *, places: Places, speed: float, log: Log) -> None:
        self._script = script
        self._places = places
        self._speed = speed
        self._log = log
        self._launches = iter(script.launches)
        self._allocated = iter(script.allocated)
        self.aliases = Aliases()
        self._behaviours: dict[str, list[Json]] = {}
        self._failure: RpcFailed | None = None
        self._device = self._new_device()
        self._server = AsyncExitStack()

    @property
    def resource(self) -> str:
        return self._script.resource

    @property
    def socket(self) -> Path:
        return self._places.here(self._script.socket)

    # --- what a script does -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """A new process of the plugin: it serves, and knows nothing of the one before."""
        launch: Launch = next(self._launches)
        self._behaviours = {key: list(each) for key, each in launch.behaviours.items()}
        self._device = self._new_device()
        self.send(launch.devices)
        await self.serve()

    async def serve(self) -> None:
        """Serve on a new socket."""
        await self.stop()
        registration = self._places.here(self._script.watcher_socket)
        for path in {self.socket, registration}:
            path.parent.mkdir(parents=True, exist_ok=True)
        handlers = [device_plugin_handler(_Logged(self._device, self))]
        if self._script.watcher is not None:
            found = plugin_registration_handler(self._watched(self._script.watcher))
            if registration == self.socket:
                handlers.append(found)
            else:
                await self._server.enter_async_context(serve_grpc(registration, [found]))
        await self._server.enter_async_context(serve_grpc(self.socket, handlers))

    async def stop(self) -> None:
        """End the process; calls under way fail."""
        await self._server.aclose()

    def remove_registration_socket(self) -> None:
        self._places.here(self._script.watcher_socket).unlink()

    async def register(self, kubelet_socket: Path, args: Json) -> None:
        """Register, and log the answer."""
        wanted = Registration(
            args.get("version", "v1beta1"),
            args.get("endpoint", self.socket.name),
            args.get("name", self._script.resource),
        )
        row: Json = {
            "what": "register",
            "request": {"version": wanted.version, "endpoint": wanted.endpoint, "resource_name": wanted.resource_name},
            "result": "OK",
        }
        try:
            await register(kubelet_socket, wanted, options=_options(args.get("options", {})), timeout_s=30)
        except RpcFailed as error:
            row |= {"result": error.code.name, "text": error.detail}
        self._log(row)

    def set(self, key: str, value: list[Json]) -> None:
        self._behaviours[key] = list(value)

    def send(self, devices: Sequence[Json] | None = None) -> None:
        """Send a list on every stream; without ``devices`` the last one again."""
        message = self._device.last_list
        if devices is not None:
            message = encode([{**each, "id": self.aliases.ours(each["id"])} for each in devices])
        self._device.send_raw(message)

    def end_streams(self, failure: RpcFailed | None = None) -> None:
        self._failure = failure
        self._device.end_streams()

    # --- what it answers --------------------------------------------------------------------------------------------

    async def options(self) -> PluginOptions:
        self._log({"what": "rpc", "rpc": "GetDevicePluginOptions"})
        await self._act(self._next("get_options"))
        return _options(self._script.options)

    async def lists(self) -> AsyncIterator[bytes]:
        self._log({"what": "rpc", "rpc": "ListAndWatch"})
        messages = cast("AsyncGenerator[bytes]", self._device.lists())
        async with contextlib.aclosing(messages):
            async for message in messages:
                yield message
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def preferred_allocation(self, request: PreferenceRequest) -> Sequence[DeviceId]:
        asked = {
            "available": list(request.available),
            "must_include": list(request.must_include),
            "size": request.size,
        }
        self._log({"what": "rpc", "rpc": "GetPreferredAllocation", "request": [asked]})
        behaviour = self._next("preferred")
        await self._act(behaviour)
        if "ids" in behaviour:
            return [DeviceId(self.aliases.ours(each)) for each in behaviour["ids"]]
        if behaviour.get("count") == 0:
            return ()
        must, rest = sorted(request.must_include), sorted(set(request.available) - set(request.must_include))
        if behaviour.get("pick") == "last":
            rest.reverse()
        return (must + rest)[: request.size]

    async def allocate(self, devices: Sequence[DeviceId]) -> ContainerEdits | None:
        self._log({"what": "rpc", "rpc": "Allocate", "request": [list(devices)]})
        self.aliases.meet(next(self._allocated, ()), devices)
        behaviour = self._next("allocate")
        await self._act(behaviour)
        if behaviour.get("count") == 0:
            return None
        return self._edits(behaviour.get("ok") or {}, ",".join(sorted(devices)))

    async def pre_start_container(self, devices: Sequence[DeviceId]) -> None:
        self._log({"what": "rpc", "rpc": "PreStartContainer", "request": list(devices)})
        await self._act(self._next("prestart"))

    def _next(self, key: str) -> Json:
        left = self._behaviours.get(key, [])
        if not left:
            return {}
        return left.pop(0) if len(left) > 1 else left[0]

    async def _act(self, behaviour: Json) -> None:
        if "hang" in behaviour:
            await asyncio.sleep(behaviour["hang"] / self._speed)
        if behaviour.get("die"):
            self._device.dying.set()
            await asyncio.Event().wait()
        if "error" in behaviour:
            code, text = behaviour["error"]
            raise RpcFailed(RpcCode[code], text)

    def _edits(self, response: Json, ids: str) -> ContainerEdits:
        def text(value: str) -> str:
            return value.replace("{ids}", ids)

        def texts(values: Mapping[str, str]) -> dict[str, str]:
            return {key: text(value) for key, value in values.items()}

        return ContainerEdits(
            env=texts(response.get("envs", {})),
            mounts=tuple(
                Mount(self._places.here(outer), container_path=inner, read_only=only)
                for inner, outer, only in response.get("mounts", ())
            ),
            device_nodes=tuple(
                DeviceNode(self._places.here(outer), container_path=inner, permissions=mode)
                for inner, outer, mode in response.get("devices", ())
            ),
            annotations=texts(response.get("annotations", {})),
            cdi_devices=tuple(response.get("cdi", ())),
        )

    # --- its parts --------------------------------------------------------------------------------------------------

    async def died(self) -> None:
        """Wait until a behaviour wants the process to end."""
        await self._device.dying.wait()

    def _new_device(self) -> _Device:
        return _Device(self._script.resource, self.socket, None, PluginOptions())

    def _watched(self, info: Json) -> FakeWatchedPlugin:
        endpoint = str(self._places.here(info["endpoint"])) if info.get("endpoint") else ""
        answer = PluginInfo(info["type"], info["name"], endpoint, tuple(info["versions"]))
        watched = FakeWatchedPlugin(self._device, answer)

        async def asked() -> PluginInfo:
            self._log({"what": "rpc", "rpc": "GetInfo"})
            return answer

        async def notified(status: RegistrationStatus) -> None:
            told = {"plugin_registered": status.plugin_registered, "error": status.error}
            self._log({"what": "rpc", "rpc": "NotifyRegistrationStatus", "request": told})
            if self._script.notify_error:
                raise RpcFailed(RpcCode.UNKNOWN, self._script.notify_error)

        watched.info_answer, watched.notify_answer = asked, notified
        return watched


class _Device(FakePlugin):
    """The device side of one process."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.last_list = b""
        self.dying = asyncio.Event()

    def send_raw(self, message: bytes) -> None:
        self.last_list = message
        super().send_raw(message)


class _Logged:
    """The service of one process: streams are its own, everything else is the script's."""

    def __init__(self, device: _Device, script: ScriptedPlugin) -> None:
        self._device = device
        self.lists = script.lists
        self.options = script.options
        self.preferred_allocation = script.preferred_allocation
        self.allocate = script.allocate
        self.pre_start_container = script.pre_start_container
        self.post_stop_container = device.post_stop_container  # no kubelet makes these two calls
        self.deallocate = device.deallocate


def encode(devices: Sequence[Json]) -> bytes:
    """A list with whatever the recording has in it."""
    message = pb.ListAndWatchResponse()
    for device in devices:
        each = message.devices.add(ID=device["id"], health=device["health"])
        if device["nodes"] is not None:
            each.topology.SetInParent()
            for node in device["nodes"]:
                each.topology.nodes.add(ID=node)
    return message.SerializeToString()


def _options(raw: Json) -> PluginOptions:
    return PluginOptions(
        pre_start_required=raw.get("pre_start", False),
        get_preferred_allocation_available=raw.get("preferred", False),
    )
