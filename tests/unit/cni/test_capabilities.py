from __future__ import annotations

import json

import pytest

from plugbay.cni.capabilities import bandwidth, port_mappings, unserved
from plugbay.cni.config import parse_list
from plugbay.model.bandwidth import Bandwidth
from plugbay.model.ports import ContainerPort, Protocol


def test_ports_of_the_host_are_mapped_in_order_and_once() -> None:
    ports = [
        ContainerPort(80, 8080),
        ContainerPort(81),
        ContainerPort(53, 5353, Protocol.UDP, "192.0.2.1"),
        ContainerPort(80, 8080, name="again"),
    ]
    assert port_mappings(ports) == {
        "portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
            {"hostPort": 5353, "containerPort": 53, "protocol": "udp", "hostIP": "192.0.2.1"},
        ]
    }


def test_no_port_of_the_host_is_no_argument() -> None:
    assert port_mappings([ContainerPort(80)]) == {}


@pytest.mark.parametrize(
    ("limits", "rates"),
    [(Bandwidth(5_000, 0), (5_000, 2**32 - 1, 0, 0)), (Bandwidth(0, 7_000), (0, 0, 7_000, 2**32 - 1))],
)
def test_unlimited_direction_has_no_burst(limits: Bandwidth, rates: tuple[int, ...]) -> None:
    names = ("ingressRate", "ingressBurst", "egressRate", "egressBurst")
    assert bandwidth(limits) == {"bandwidth": dict(zip(names, rates, strict=True))}


def test_no_limit_is_no_argument() -> None:
    assert bandwidth(None) == {}


def test_what_no_plugin_takes_is_told() -> None:
    plugins = [{"type": "a", "capabilities": {"portMappings": True, "mac": False}}]
    network = parse_list(json.dumps({"name": "n", "plugins": plugins}).encode(), source="n")
    assert unserved(network, {"portMappings": [], "mac": "x", "bandwidth": {}}) == ["bandwidth", "mac"]
