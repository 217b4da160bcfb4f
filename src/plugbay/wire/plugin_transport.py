"""The way between a manager and its plugins: channels to them, the service they register at, and their admission.

It is a port, so that a test can record what passes, and disturb it, without a manager that knows of tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from plugbay.model.ids import ResourceName
from plugbay.wire.calls import CallChannel
from plugbay.wire.grpc.channel import LOCALHOST, Channel
from plugbay.wire.grpc.services import Service


class PluginTransport(Protocol):
    """The port; `PLAIN` is what production uses."""

    def channel(self, socket: Path, *, authority: str = LOCALHOST) -> CallChannel:
        """A channel to a plugin's socket.

        Raises:
            PathTooLong: the kernel cannot connect to the path.
        """
        ...

    def offered(self, service: Service) -> Service:
        """The service as plugins reach it, such as ``v1beta1.Registration``."""
        ...

    async def admit(self, resource: ResourceName, socket: Path) -> None:
        """Called for a registration that has passed all checks, by either route, before the plugin is dialled.

        Raises:
            RegistrationRefused: with the text for the plugin.
        """
        ...


class PlainTransport:
    """Nothing stands between the manager and its plugins."""

    def channel(self, socket: Path, *, authority: str = LOCALHOST) -> CallChannel:
        return Channel(socket, authority=authority)

    def offered(self, service: Service) -> Service:
        return service

    async def admit(self, resource: ResourceName, socket: Path) -> None:
        """Every plugin may register."""


PLAIN: Final[PluginTransport] = PlainTransport()
