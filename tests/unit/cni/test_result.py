"""Results in all versions, and between them."""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cni.result import Dns, Interface, Ip, Result, Route, container_addresses, parse
from plugbay.cni.result_encoding import convert, encode
from plugbay.cni.versions import SUPPORTED
from plugbay.documents import JsonValue
from plugbay.errors import InvalidNetworkResult

FULL = Result(
    "1.1.0",
    (Interface("br0"), Interface("eth0", "02:00:00:00:00:01", 1400, "/run/netns/a", "/run/vhost", "0000:04:00.5")),
    (
        Ip(ip_interface("10.0.0.2/24"), ip_address("10.0.0.1"), 1),
        Ip(ip_interface("fd00::2/64"), None, 1),
        Ip(ip_interface("10.0.0.3/24"), None, 1),
    ),
    (
        Route(ip_interface("0.0.0.0/0"), ip_address("10.0.0.1")),
        Route(ip_interface("fd01::/64"), None, 1300, 1200, 5, 0, 254),
    ),
    Dns(("10.0.0.53",), "example.com", ("a", "b"), ("ndots:5",)),
)
DNS: JsonValue = {"nameservers": ["10.0.0.53"], "domain": "example.com", "search": ["a", "b"], "options": ["ndots:5"]}
ROUTE6: JsonValue = {"dst": "fd01::/64", "mtu": 1300, "advmss": 1200, "priority": 5, "table": 0, "scope": 254}
ROUTE4: JsonValue = {"dst": "0.0.0.0/0", "gw": "10.0.0.1"}


def test_newest_version_tells_everything() -> None:
    assert encode(FULL) == {
        "cniVersion": "1.1.0",
        "interfaces": [
            {"name": "br0"},
            {
                "name": "eth0",
                "mac": "02:00:00:00:00:01",
                "mtu": 1400,
                "sandbox": "/run/netns/a",
                "socketPath": "/run/vhost",
                "pciID": "0000:04:00.5",
            },
        ],
        "ips": [
            {"address": "10.0.0.2/24", "gateway": "10.0.0.1", "interface": 1},
            {"address": "fd00::2/64", "interface": 1},
            {"address": "10.0.0.3/24", "interface": 1},
        ],
        "routes": [ROUTE4, ROUTE6],
        "dns": DNS,
    }


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0"])
def test_middle_versions_tell_families(version: str) -> None:
    written = encode(convert(FULL, version))
    assert written["interfaces"] == [
        {"name": "br0"},
        {"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/run/netns/a"},
    ]
    ips = written["ips"]
    assert isinstance(ips, list)
    assert [each["version"] for each in ips if isinstance(each, dict)] == ["4", "6", "4"]


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_first_versions_have_one_address_of_each_family(version: str) -> None:
    assert encode(convert(FULL, version)) == {
        "cniVersion": version,
        "ip4": {"ip": "10.0.0.2/24", "gateway": "10.0.0.1", "routes": [ROUTE4]},
        "ip6": {"ip": "fd00::2/64", "routes": [ROUTE6]},
        "dns": DNS,
    }


def test_first_versions_need_an_address() -> None:
    with pytest.raises(InvalidNetworkResult, match="cannot convert: no valid IP addresses"):
        convert(Result("1.0.0", (Interface("eth0"),)), "0.2.0")


@pytest.mark.parametrize("version", ["1.2.0", "1.0", "9.0.0"])
def test_nothing_becomes_a_result_of_a_version_nobody_knows(version: str) -> None:
    with pytest.raises(InvalidNetworkResult, match="no converter for CNI result version 1"):
        convert(FULL, version)


def test_same_version_needs_nothing() -> None:
    assert convert(Result("0.2.0"), "0.2.0") == Result("0.2.0")


@pytest.mark.parametrize(("version", "has_dns"), [("0.4.0", True), ("1.0.0", False), ("1.1.0", False)])
def test_only_old_versions_tell_of_no_dns(version: str, has_dns: bool) -> None:
    assert ("dns" in encode(Result(version))) is has_dns


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_everything_is_read_back(version: str) -> None:
    result = convert(FULL, version)
    assert parse(encode(result), version="") == result


@pytest.mark.parametrize("value", [None, {}])
def test_nothing_is_an_empty_result_of_the_configs_version(value: JsonValue) -> None:
    assert parse(value, version="0.4.0") == Result("0.4.0")


def test_mapped_address_is_the_one_of_ipv4_as_for_go() -> None:
    given: JsonValue = {"ips": [{"address": "::ffff:10.0.0.2/120", "gateway": "::ffff:10.0.0.1"}]}
    assert encode(parse(given, version="0.4.0"))["ips"] == [
        {"address": "10.0.0.2/24", "gateway": "10.0.0.1", "version": "4"}
    ]


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "1.0.0", "1.1.0"])
def test_interface_that_is_null_keeps_its_place(version: str) -> None:
    interfaces: JsonValue = [None, {"name": "br0"}, None, {"name": "eth0", "sandbox": "/ns"}]
    ips: JsonValue = [None, {"address": "10.0.0.2/24", "interface": 3}]
    found = parse({"cniVersion": version, "interfaces": interfaces, "ips": ips, "routes": [None]}, version="")
    assert [each.name for each in found.interfaces] == ["", "br0", "", "eth0"]
    assert [str(each) for each in container_addresses(found, "eth0")] == ["10.0.0.2"]
    assert parse(encode(found), version="") == found


def test_members_are_matched_as_go_does() -> None:
    given: JsonValue = {"CNIVersion": "1.0.0", "IPS": [{"Address": "10.0.0.2/24", "INTERFACE": 0}]}
    assert parse(given, version="").ips == (Ip(ip_interface("10.0.0.2/24"), None, 0),)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "the result is a list"),
        ({"cniVersion": "9.0.0"}, 'unsupported CNI result version "9.0.0"'),
        ({"cniVersion": 1}, "cniVersion is a number"),
        ({"ips": {}}, "ips is an object"),
        ({"ips": ["10.0.0.2/24"]}, "an entry of ips is a text"),
        ({"ips": [{}]}, "address is missing"),
        ({"ips": [{"address": "10.0.0.2"}]}, "address: '10.0.0.2' is not an address with a prefix length"),
        ({"ips": [{"address": "10.0.0.2/255.255.255.0"}]}, "is not an address with a prefix length"),
        ({"ips": [{"address": "fe80::1%eth0/64"}]}, "is not an address with a prefix length"),
        ({"ips": [{"address": "10.0.0.2/24", "gateway": "x"}]}, "gateway: 'x' is not an IP address"),
        ({"ips": [{"address": "10.0.0.2/24", "interface": "0"}]}, "interface is a text"),
        ({"ips": [{"address": "10.0.0.2/24", "interface": True}]}, "interface is true"),
        ({"routes": [{"gw": "10.0.0.1"}]}, "dst is missing"),
        ({"dns": {"search": "a"}}, "search is not a list of texts"),
        ({"dns": []}, None),
        ({"ip4": {"ip": "x/y"}, "cniVersion": "0.2.0"}, "ip: 'x/y'"),
    ],
)
def test_what_is_no_result_is_refused(value: JsonValue, problem: str | None) -> None:
    if problem is None:
        assert parse(value, version="1.0.0") == Result("1.0.0")
        return
    with pytest.raises(InvalidNetworkResult) as refusal:
        parse(value, version="1.0.0")
    assert problem in str(refusal.value)


def test_pod_has_the_addresses_of_its_interface() -> None:
    interfaces = (
        Interface("eth0"),
        Interface("eth0", sandbox="/run/netns/a"),
        Interface("net1", sandbox="/run/netns/a"),
    )
    ips = tuple(
        Ip(ip_interface(f"{address}/24"), interface=index)
        for address, index in [("10.0.0.1", 0), ("fd00::2", 1), ("10.0.0.2", 1), ("10.0.0.3", 2), ("10.0.0.4", None)]
    )
    found = container_addresses(Result("1.0.0", interfaces, ips), "eth0")
    assert [str(each) for each in found] == ["10.0.0.2", "fd00::2", "10.0.0.4"]


TEXTS = st.text("abc0:/.-", max_size=8)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4).map(lambda each: IPv4Interface((each, 24))),
    st.ip_addresses(v=6)
    .map(lambda each: IPv6Interface((each, 64)))
    .filter(lambda each: IPv6Address(each.ip).ipv4_mapped is None),
)
"""None that is an IPv4 address in IPv6's form: results are read as Go reads them, so that it is one of IPv4."""
IPS = st.builds(Ip, ADDRESSES, st.none() | st.ip_addresses(), st.none() | st.integers(0, 3))
ROUTES = st.builds(
    Route, ADDRESSES, st.none() | st.ip_addresses(), *[st.integers(0, 9)] * 3, st.none() | st.integers(0, 255)
)
RESULTS = st.builds(
    Result,
    st.sampled_from(SUPPORTED),
    st.lists(st.builds(Interface, st.just("eth0"), TEXTS, sandbox=TEXTS), max_size=3).map(tuple),
    st.lists(IPS, min_size=1, max_size=4).map(tuple),
    st.lists(ROUTES, max_size=3).map(tuple),
    st.builds(Dns, st.lists(TEXTS, max_size=2).map(tuple), TEXTS),
)


@given(RESULTS, st.sampled_from(SUPPORTED), st.sampled_from(SUPPORTED))
def test_conversion_goes_by_way_of_any_version(result: Result, through: str, to: str) -> None:
    """What survives a version survives it always: going there twice changes nothing more."""
    once = parse(encode(convert(result, through)), version="")
    assert once.version == through
    assert parse(encode(convert(convert(once, to), through)), version="") == once
