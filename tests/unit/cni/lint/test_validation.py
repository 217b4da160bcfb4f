"""What files say together, and against the machine; the rest is tested through the command."""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any

import pytest

from plugbay.cni.answers import PluginVersions
from plugbay.cni.lint.findings import LintFinding, Severity
from plugbay.cni.lint.validation import Absence, Installed, Source, Surroundings, plugin_types, validate


def source(*subnets: str, name: str = "net", **plugin: Any) -> Source:
    ranges = [[{"subnet": each}] for each in subnets]
    ipam = {"type": "host-local", "ranges": ranges}
    document = {"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge", "ipam": ipam, **plugin}]}
    return Source(f"{name}.conflist", json.dumps(document).encode())


def errors(*sources: Source, **around: Any) -> list[LintFinding]:
    found = [each for one in validate(sources, Surroundings(**around)) for each in one.findings]
    return [each for each in found if each.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("subnet", "network", "link", "overlaps"),
    [
        ("10.9.0.0/16", "10.9.7.0/24", "eth0", True),
        ("10.9.7.0/24", "10.0.0.0/8", "eth0", True),
        ("10.9.0.0/16", "10.10.0.0/16", "eth0", False),
        ("10.9.0.0/16", "10.9.0.0/16", "br9", False),
        ("10.9.0.0/16", "10.9.0.7/32", "veth12345678", False),
        ("fd00::/64", "fd00::/48", "eth0", True),
        ("fd00::/64", "10.0.0.0/8", "eth0", False),
    ],
)
def test_subnet_must_not_be_the_hosts(subnet: str, network: str, link: str, overlaps: bool) -> None:
    """What goes through the network's own bridge, or to a container, is no network of the host."""
    found = errors(source(subnet, bridge="br9"), host_networks=[(ip_network(network), link)])
    assert [each.problem for each in found] == (
        [f"{subnet} overlaps {network}, which the host reaches through {link}"] if overlaps else []
    )


def test_default_bridge_is_its_own() -> None:
    assert not errors(source("10.9.0.0/16"), host_networks=[(ip_network("10.9.0.0/16"), "cni0")])


def test_finding_has_its_place() -> None:
    content = json.dumps(json.loads(source("10.9.0.0/16").content), indent=1).encode()
    (found,) = errors(Source("net.conflist", content), host_networks=[(ip_network("10.9.0.0/16"), "eth0")])
    assert (found.where, found.place) == ("plugins[0].ipam.ranges[0][0].subnet", (12, 8))


def test_two_networks_must_not_overlap_though_their_names_may() -> None:
    one, other = source("10.9.0.0/16", name="a"), source("10.9.1.0/24", name="b")
    assert [each.source for each in errors(one, other)] == ["b.conflist"]
    assert not errors(one, Source("c.conflist", one.content))


def test_both_binaries_are_needed() -> None:
    wanted = source("10.9.0.0/16")
    assert plugin_types([wanted]) == {"bridge", "host-local"}
    installed: dict[str, Installed] = {"bridge": PluginVersions("0.4.0", ("0.4.0",)), "host-local": Absence.MISSING}
    found = errors(wanted, installed=installed, directories=["/bin"])
    assert [(each.where, each.problem) for each in found] == [
        ("plugins[0].type", 'binary "bridge" cannot use version 1.0.0'),
        ("plugins[0].ipam.type", 'no binary "host-local" in /bin'),
    ]


def test_offered_versions_may_suit_a_binary() -> None:
    document = json.loads(source("10.9.0.0/16").content) | {"cniVersions": ["0.4.0", "1.1.0"]}
    installed: dict[str, Installed] = {"bridge": PluginVersions("0.4.0", ("0.3.1", "0.4.0"))}
    assert not errors(Source("net.conflist", json.dumps(document).encode()), installed=installed)
