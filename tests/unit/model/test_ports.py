from __future__ import annotations

import pytest

from plugbay.model.ports import ContainerPort, Protocol, conflict


def host(port: int, protocol: Protocol = Protocol.TCP, ip: str = "") -> ContainerPort:
    return ContainerPort(80, port, protocol, ip)


@pytest.mark.parametrize(
    ("one", "other", "is_conflict"),
    [
        (host(8080), host(8080), True),
        (host(8080), host(8081), False),
        (host(8080), host(8080, Protocol.UDP), False),
        (host(8080, Protocol.SCTP), host(8080, Protocol.SCTP), True),
        (host(0), host(0), False),
        (host(8080), host(8080, ip="192.0.2.1"), True),
        (host(8080, ip="0.0.0.0"), host(8080, ip="192.0.2.1"), True),
        (host(8080, ip="0.0.0.0"), host(8080, ip="2001:db8::1"), True),
        (host(8080, ip="::"), host(8080, ip="192.0.2.1"), False),
        (host(8080, ip="::"), host(8080, ip="2001:db8::1"), True),
        (host(8080, ip="::"), host(8080), True),
        (host(8080, ip="192.0.2.1"), host(8080, ip="192.0.2.1"), True),
        (host(8080, ip="192.0.2.1"), host(8080, ip="192.0.2.2"), False),
        (host(8080, ip="192.0.2.1"), host(8080, ip="2001:db8::1"), False),
        (host(8080, ip="2001:db8::1"), host(8080, ip="2001:0db8:0::1"), True),
    ],
)
def test_ports_conflict_where_their_addresses_meet(one: ContainerPort, other: ContainerPort, is_conflict: bool) -> None:
    assert conflict(one, other) is conflict(other, one) is is_conflict


@pytest.mark.parametrize("fields", [(0,), (65536,), (80, -1), (80, 65536), (80, 80, Protocol.TCP, "x")])
def test_port_outside_of_the_range_is_none(fields: tuple[int, int, Protocol, str]) -> None:
    with pytest.raises(ValueError, match=r"is not between|does not appear to be"):
        ContainerPort(*fields)
