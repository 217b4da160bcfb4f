"""Ports that a pod's containers use on their host, and conflicts between them. Pure."""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from plugbay.values import dataclass

MAX_PORT: Final = 65535

_ALL_IPV4: Final = IPv4Address("0.0.0.0")
_ALL_IPV6: Final = IPv6Address("::")


class Protocol(Enum):
    """A protocol, spelled as in v1."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


@dataclass(frozen=True, slots=True)
class ContainerPort:
    """One entry of a container's ``ports``.

    Attributes:
        host_port: 0 when no port of the host is used.
        host_ip: the address on the host; empty for all.
    """

    container_port: int
    host_port: int = 0
    protocol: Protocol = Protocol.TCP
    host_ip: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.container_port <= MAX_PORT:
            raise ValueError(f"container port {self.container_port} is not between 1 and {MAX_PORT}")
        if not 0 <= self.host_port <= MAX_PORT:
            raise ValueError(f"host port {self.host_port} is not between 0 and {MAX_PORT}")
        if self.host_ip:
            ip_address(self.host_ip)

    @property
    def host_address(self) -> IPv4Address | IPv6Address | None:
        """The only address on the host, ``::`` for all of IPv6, None for all."""
        address = ip_address(self.host_ip) if self.host_ip else None
        return None if address == _ALL_IPV4 else address


def conflict(wanted: ContainerPort, taken: ContainerPort) -> bool:
    """Whether both use the same port of the host: same number and protocol, and an address in common.

    ``0.0.0.0`` means every address, IPv6 included, as for the scheduler. ``::`` means every address of IPv6, which
    the scheduler does not know, but the plugin portmap does.

    Source: Kubernetes 1.36 ``scheduler/framework/types.go``, ``HostPortInfo.CheckConflict``.
    """
    if not wanted.host_port or (wanted.host_port, wanted.protocol) != (taken.host_port, taken.protocol):
        return False
    one, other = wanted.host_address, taken.host_address
    if one is None or other is None or one == other:
        return True
    return _ALL_IPV6 in (one, other) and one.version == other.version
