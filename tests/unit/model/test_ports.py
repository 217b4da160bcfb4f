from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import HostPortConflict
from plugbay.model.ports import ContainerPort, Protocol, check_host_ports, conflict


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


@pytest.mark.parametrize(
    ("port", "text"),
    [
        (host(8080), "8080/TCP"),
        (host(53, Protocol.UDP, "192.0.2.1"), "192.0.2.1:53/UDP"),
        (host(53, Protocol.UDP, "2001:db8::1"), "[2001:db8::1]:53/UDP"),
        (host(80, ip="0.0.0.0"), "80/TCP"),
        (host(80, ip="::"), "[::]:80/TCP"),
    ],
)
def test_conflict_is_told(port: ContainerPort, text: str) -> None:
    with pytest.raises(HostPortConflict) as refusal:
        check_host_ports([host(1), port], {"default/free": [host(2)], "default/web": [host(3), port]})
    assert (refusal.value.port, refusal.value.holder) == (text, "default/web")


def test_free_ports_and_repetitions_are_let_in() -> None:
    check_host_ports([host(8080), host(8080)], {"default/web": [host(8081), host(8080, Protocol.UDP)]})


@pytest.mark.parametrize("fields", [(0,), (65536,), (80, -1), (80, 65536), (80, 80, Protocol.TCP, "x")])
def test_port_outside_of_the_range_is_none(fields: tuple[int, int, Protocol, str]) -> None:
    with pytest.raises(ValueError, match=r"is not between|does not appear to be"):
        ContainerPort(*fields)


PORTS = st.builds(
    host, st.integers(0, 2), st.sampled_from(Protocol), st.sampled_from(["", "0.0.0.0", "::", "192.0.2.1", "::1"])
)


@given(st.lists(PORTS, max_size=4), st.lists(PORTS, max_size=4))
def test_a_pod_is_refused_for_a_conflict_and_for_nothing_else(
    wanted: list[ContainerPort], taken: list[ContainerPort]
) -> None:
    expected = any(conflict(one, other) for one in wanted for other in taken)
    try:
        check_host_ports(wanted, {"default/a": taken})
    except HostPortConflict:
        assert expected
    else:
        assert not expected
