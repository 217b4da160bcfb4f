"""The versions of the device plugin API that our plugins speak: one table for what is served and what is said.

Source: kubelet 1.36 ``apis/deviceplugin/v1beta1/constants.go``; spec 2.2, 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from plugbay.wire.grpc.services import Service
from plugbay.wire.plugin_server import Caller, DevicePluginServicer, device_plugin_handler

_HANDLERS: Final[Mapping[str, Callable[[DevicePluginServicer, Callable[[Caller], object] | None], Service]]] = {
    "v1beta1": device_plugin_handler,
}

API_VERSIONS: Final = tuple(_HANDLERS)
"""The versions, the best one first. Register names one of them at a time, an answer to GetInfo all."""


def device_plugin_handlers(
    servicer: DevicePluginServicer, heed: Callable[[Caller], object] | None = None
) -> tuple[Service, ...]:
    """Handlers that offer ``servicer`` in every version; for ``heed`` see `device_plugin_handler`."""
    return tuple(handler(servicer, heed) for handler in _HANDLERS.values())
