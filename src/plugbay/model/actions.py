"""The actions by which a kubelet looks at a container or tells it something: probes and lifecycle hooks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from plugbay.model.ports import MAX_PORT, ContainerPort
from plugbay.values import dataclass

PortRef = int | str
"""The number of a port, or the name that a container gives it."""


class HttpScheme(Enum):
    """Spelled as in v1."""

    HTTP = "HTTP"
    HTTPS = "HTTPS"


@dataclass(frozen=True, slots=True)
class ExecAction:
    """A command run in the container."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HttpGetAction:
    """A GET request.

    Attributes:
        path: with its query, as written.
        host: empty for the pod's address.
        headers: names and values, in order; a name may come again.
    """

    port: PortRef
    path: str = "/"
    host: str = ""
    scheme: HttpScheme = HttpScheme.HTTP
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TcpSocketAction:
    """A connection that is opened and closed; ``host`` is empty for the pod's address."""

    port: PortRef
    host: str = ""


@dataclass(frozen=True, slots=True)
class GrpcAction:
    """A call of ``grpc.health.v1.Health/Check`` about ``service``, without TLS."""

    port: int
    service: str = ""


@dataclass(frozen=True, slots=True)
class SleepAction:
    seconds: int


ProbeAction = ExecAction | HttpGetAction | TcpSocketAction | GrpcAction
Hook = ExecAction | HttpGetAction | SleepAction


def port_number(port: PortRef, ports: Iterable[ContainerPort]) -> int:
    """The number that ``port`` means in a container with these ``ports``.

    Raises:
        ValueError: there is no such port; the text is a kubelet's.

    Source: kubelet 1.36 ``pkg/probe/util.go``, ``ResolveContainerPort``.
    """
    if isinstance(port, str):
        port = next((each.container_port for each in ports if each.name == port), port)
    if isinstance(port, str):
        if not port.removeprefix("-").isdecimal():
            raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        port = int(port)
    if not 1 <= port <= MAX_PORT:
        raise ValueError(f"invalid port number: {port}")
    return port
