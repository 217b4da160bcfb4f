"""Container ports between v1 and our value, and what an API server checks of them.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``validateContainerPorts``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, TypedDict

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model.field_path import FieldPath
from plugbay.model.ports import MAX_PORT, ContainerPort, Protocol

_RANGE: Final = f"must be between 1 and {MAX_PORT}, inclusive"
_NAME: Final = re.compile(r"(?=.*[a-z])[a-z0-9](?:-?[a-z0-9])*")
_MAX_NAME: Final = 15


class V1Port(TypedDict, total=False):
    name: str
    containerPort: int
    hostPort: int
    hostIP: str
    protocol: str


def ports_of(v1: Iterable[V1Port], *, host_network: bool) -> tuple[ContainerPort, ...]:
    """The ports that make sense; `check_ports` tells of the others. On the host's network each takes a host port."""
    found = []
    for each in v1:
        number = each.get("containerPort", 0)
        port = each.get("hostPort", 0) or (number if host_network else 0)
        try:
            protocol = Protocol(each.get("protocol", Protocol.TCP.value))
            found.append(ContainerPort(number, port, protocol, each.get("hostIP", ""), each.get("name", "")))
        except ValueError:
            continue
    return tuple(found)


def ports_to_v1(ports: Iterable[ContainerPort]) -> list[dict[str, object]]:
    return [
        {
            **({"name": port.name} if port.name else {}),
            **({"hostPort": port.host_port} if port.host_port else {}),
            "containerPort": port.container_port,
            "protocol": port.protocol.value,
            **({"hostIP": port.host_ip} if port.host_ip else {}),
        }
        for port in ports
    ]


def check_ports(ports: Iterable[V1Port], path: FieldPath, report: ManifestReport, *, host_network: bool) -> None:
    """Report what an API server would refuse in the ports of one container."""
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = (*path, index)
        if not report.is_sound(where):
            continue  # its shape is wrong
        number, host_port, name = port.get("containerPort", 0), port.get("hostPort", 0), port.get("name", "")
        if not number:
            report.problem((*where, "containerPort"), "Required value")
        elif not 1 <= number <= MAX_PORT:
            report.problem((*where, "containerPort"), invalid(number, _RANGE))
        if host_port and not 1 <= host_port <= MAX_PORT:
            report.problem((*where, "hostPort"), invalid(host_port, _RANGE))
        elif host_network and host_port not in (0, number):
            report.problem(
                (*where, "hostPort"), invalid(host_port, "must match `containerPort` when `hostNetwork` is true")
            )
        if "hostIP" in port and port["hostIP"] and not _is_address(port["hostIP"]):
            report.problem((*where, "hostIP"), invalid(port["hostIP"], "must be a valid IP address"))
        if name and (len(name) > _MAX_NAME or not _NAME.fullmatch(name)):
            rule = "must be at most 15 lower-case letters, digits and single '-' inside, with at least one letter"
            report.problem((*where, "name"), invalid(name, rule))
        elif name in names:
            report.problem((*where, "name"), f'Duplicate value: "{name}"')
        names |= {name} - {""}


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
