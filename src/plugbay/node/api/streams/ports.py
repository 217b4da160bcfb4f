"""Ports of pods, forwarded to clients."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from plugbay.node.api.pods import pod_of
from plugbay.node.api.streams.spdy_upgrades import SPDY, asks_for, negotiated, upgrade_required
from plugbay.ops.routing import HttpError, Request, UpgradedStream, UpgradeResponse
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.pod_ports import PodPorts

if TYPE_CHECKING:
    from plugbay.node.api.streams.forwarding import ForwardedPod

_PROTOCOL: Final = "portforward.k8s.io"
_TUNNEL: Final = f"{SPDY}+{_PROTOCOL}"
_CHANNELS: Final = "v4.channel.k8s.io"
_WEBSOCKET: Final = "websocket"
_WITH_NETWORK: Final = (PodStage.ACTIVE, PodStage.TERMINATING)


class PortRoutes:
    def __init__(self, pods: PodTable, ports: PodPorts) -> None:
        self._pods = pods
        self._ports = ports

    async def forward(self, request: Request) -> UpgradeResponse:
        """Switch to SPDY, to SPDY within WebSocket, or to channels within WebSocket."""
        record = pod_of(self._pods, request)
        if record.stage not in _WITH_NETWORK:
            raise HttpError(400, "BadRequest", f"pod {record.pod.name} is not running, so that it has no ports")
        # Imported here, as SPDY is: few nodes forward ports.
        from plugbay.node.api.streams.forwarding import ForwardedPod

        pod = ForwardedPod(record.pod.name, record.pod.uid, partial(self._ports.connect, record.pod.uid))
        if asks_for(request, SPDY):
            _, header = negotiated(request, (_PROTOCOL,))
            return UpgradeResponse(SPDY, partial(_over_spdy, pod=pod), (header,))
        if asks_for(request, _WEBSOCKET):
            return _over_websocket(request, pod)
        raise upgrade_required()


def _over_websocket(request: Request, pod: ForwardedPod) -> UpgradeResponse:
    # The library of WebSocket takes 2 MB.
    from plugbay.node.api.streams.forwarding_channels import forward_over_channels, ports_of
    from plugbay.node.api.streams.websocket_handshake import accepted

    subprotocol, headers = accepted(request, (_TUNNEL, _CHANNELS), otherwise=_CHANNELS)
    if subprotocol == _TUNNEL:
        return UpgradeResponse(_WEBSOCKET, partial(_through_tunnel, pod=pod), headers)
    serve = partial(forward_over_channels, pod=pod, ports=ports_of(request))
    return UpgradeResponse(_WEBSOCKET, serve, headers)


async def _over_spdy(connection: UpgradedStream, pod: ForwardedPod) -> None:
    from plugbay.node.api.streams.forwarding import forward_over_spdy

    await forward_over_spdy(connection, pod, connection)


async def _through_tunnel(connection: UpgradedStream, pod: ForwardedPod) -> None:
    from plugbay.node.api.streams.forwarding import forward_over_spdy
    from plugbay.node.api.streams.tunnels import TunnelledConnection

    tunnel = TunnelledConnection(connection)
    await forward_over_spdy(tunnel, pod, connection)
    await tunnel.close()
