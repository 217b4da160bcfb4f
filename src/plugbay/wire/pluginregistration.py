"""Registration found by the plugin watcher: the manager calls, the plugin answers.

The plugin serves ``pluginregistration.Registration`` on a socket below the kubelet's ``plugins_registry``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from plugbay.values import dataclass
from plugbay.wire.calls import call
from plugbay.wire.generated import pluginregistration_v1_pb2 as pb
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import unary
from plugbay.wire.plugin_transport import PLAIN, PluginTransport
from plugbay.wire.sockets import authority_of

DEVICE_PLUGIN: Final = "DevicePlugin"
"""The type of a device plugin; compared exactly."""
_SERVICE: Final = "pluginregistration.Registration"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin's description of itself; nothing is checked yet.

    Attributes:
        type: what kind of plugin it is, such as `DEVICE_PLUGIN`.
        name: for a device plugin, the resource name.
        endpoint: path of the socket that serves the plugin itself; empty when it is the registration socket.
        versions: API versions it speaks.
    """

    type: str
    name: str
    endpoint: str = ""
    versions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The result of a registration; ``error`` is empty if the plugin is registered."""

    plugin_registered: bool
    error: str = ""


class PluginRegistrationClient:
    """A connection to a registration socket, with the authority that a kubelet sends there.

    Failing calls raise `RpcFailed`.
    """

    def __init__(self, path: Path, transport: PluginTransport = PLAIN) -> None:
        self._channel = transport.channel(path, authority=authority_of(path))

    async def connect(self, timeout_s: float) -> None:
        """Connect, and try again while no server listens yet.

        Raises:
            TimeoutError: no server answered in time.
        """
        await self._channel.connect(timeout_s)

    async def close(self) -> None:
        await self._channel.close()

    async def info(self, *, timeout_s: float) -> PluginInfo:
        """GetInfo."""
        answer = await call(self._channel, f"/{_SERVICE}/GetInfo", pb.InfoRequest(), pb.PluginInfo, timeout_s=timeout_s)
        return PluginInfo(answer.type, answer.name, answer.endpoint, tuple(answer.supported_versions))

    async def notify(self, status: RegistrationStatus, *, timeout_s: float) -> None:
        """NotifyRegistrationStatus."""
        await call(
            self._channel,
            f"/{_SERVICE}/NotifyRegistrationStatus",
            pb.RegistrationStatus(plugin_registered=status.plugin_registered, error=status.error),
            pb.RegistrationStatusResponse,
            timeout_s=timeout_s,
        )


def without_endpoint(encoded: bytes) -> tuple[PluginInfo, bytes] | None:
    """An encoded answer to GetInfo, and the same without its endpoint: then the plugin is at the same socket.

    Every other field survives, also those that we do not know. None if the bytes are not such an answer.
    """
    try:
        answer = pb.PluginInfo.FromString(encoded)
    except DecodeError:
        return None
    info = PluginInfo(answer.type, answer.name, answer.endpoint, tuple(answer.supported_versions))
    answer.ClearField("endpoint")
    return info, answer.SerializeToString()


class PluginRegistrationServicer(Protocol):
    """Answers a plugin watcher. What it raises becomes status UNKNOWN with the exception's text, as in Go."""

    async def info(self) -> PluginInfo:
        """The plugin's description of itself; the watcher asks again with each try."""
        ...

    async def notified(self, status: RegistrationStatus) -> None:
        """The outcome of one attempt; raising undoes a registration."""
        ...


def plugin_registration_handler(servicer: PluginRegistrationServicer) -> Service:
    """The service ``pluginregistration.Registration``, answered by ``servicer``."""

    async def get_info(_: pb.InfoRequest) -> pb.PluginInfo:
        info = await servicer.info()
        return pb.PluginInfo(type=info.type, name=info.name, endpoint=info.endpoint, supported_versions=info.versions)

    async def notify(status: pb.RegistrationStatus) -> pb.RegistrationStatusResponse:
        await servicer.notified(RegistrationStatus(status.plugin_registered, status.error))
        return pb.RegistrationStatusResponse()

    return Service(
        _SERVICE,
        {
            "GetInfo": unary(pb.InfoRequest, get_info),
            "NotifyRegistrationStatus": unary(pb.RegistrationStatus, notify),
        },
    )
