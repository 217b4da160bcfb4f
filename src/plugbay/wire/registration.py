"""Registration on ``kubelet.sock``: the plugin calls, the manager answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path

from google.protobuf.message import DecodeError

from plugbay.model.devices import PluginOptions
from plugbay.values import dataclass
from plugbay.wire.calls import call
from plugbay.wire.convert import options_from_pb, options_to_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import unary


@dataclass(frozen=True, slots=True)
class Registration:
    """A plugin's description of itself; nothing is checked yet.

    Attributes:
        endpoint: name of the plugin's socket, relative to the device plugin directory.
        options: the options in the request, which kubelets look at no more since 1.25.
    """

    version: str
    endpoint: str
    resource_name: str
    options: PluginOptions = field(default_factory=PluginOptions, compare=False)


async def register(socket: Path, registration: Registration, *, options: PluginOptions, timeout_s: float) -> None:
    """Register a plugin with the kubelet behind ``socket``.

    Raises:
        RpcFailed: refused (``Unknown``), no server (``Unavailable``) or no answer in time (``DeadlineExceeded``).
    """
    channel = Channel(socket)
    request = pb.RegisterRequest(
        version=registration.version,
        endpoint=registration.endpoint,
        resource_name=registration.resource_name,
        options=options_to_pb(options),
    )
    try:
        await call(channel, "/v1beta1.Registration/Register", request, pb.Empty, timeout_s=timeout_s)
    finally:
        await channel.close()


def encode_registration(registration: Registration) -> bytes:
    """The Register request of a plugin, without options."""
    version, endpoint, name = registration.version, registration.endpoint, registration.resource_name
    return pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=name).SerializeToString()


def moved_registration(encoded: bytes, place: Callable[[str], str]) -> tuple[Registration, bytes] | None:
    """An encoded Register request, and the same with the endpoint that ``place`` makes of its own.

    Every other field survives, also those that we do not know. None if the bytes are not such a request.
    """
    try:
        request = pb.RegisterRequest.FromString(encoded)
    except DecodeError:
        return None
    registration = Registration(request.version, request.endpoint, request.resource_name)
    request.endpoint = place(request.endpoint)
    return registration, request.SerializeToString()


def registration_handler(accept: Callable[[Registration], Awaitable[None]]) -> Service:
    """The service ``v1beta1.Registration``; what ``accept`` raises is the refusal."""

    async def handle(request: pb.RegisterRequest) -> pb.Empty:
        options = options_from_pb(request.options)
        await accept(Registration(request.version, request.endpoint, request.resource_name, options))
        return pb.Empty()

    return Service("v1beta1.Registration", {"Register": unary(pb.RegisterRequest, handle)})
