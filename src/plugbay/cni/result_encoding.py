"""Results in the form of any version of the specification: pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from plugbay.cni.result import Dns, Interface, Ip, Result, Route
from plugbay.cni.versions import SUPPORTED, is_at_least
from plugbay.documents import JsonObject, JsonValue
from plugbay.errors import InvalidNetworkResult

_HAS_LISTS: Final = "0.3.0"
_KNOWS_FAMILY: Final = "1.0.0"
"""The first version that omits an address's ``version``: the address itself shows its family."""


def encode(result: Result) -> JsonObject:
    """``result`` as a document of its own version; empty members are left out.

    Versions before 0.3.0 have one address of each family, with the routes of its family; what else there is is dropped.
    """
    if not is_at_least(result.version, _HAS_LISTS):
        return _encode_old(result)
    is_modern = is_at_least(result.version, _KNOWS_FAMILY)
    document: JsonObject = {"cniVersion": result.version}
    if result.interfaces:
        document["interfaces"] = [_interface(each, is_modern=is_modern) for each in result.interfaces]
    if result.ips:
        document["ips"] = [_ip(each, is_modern=is_modern) for each in result.ips]
    if result.routes:
        document["routes"] = [_route(each) for each in result.routes]
    if result.dns != Dns() or not is_modern:
        document["dns"] = _dns(result.dns)
    return document


def convert(result: Result, version: str) -> Result:
    """Convert ``result`` to another version; the encoding drops what that version cannot express.

    Raises:
        InvalidNetworkResult: the version is not one that we know, or before 0.3.0, where a result without an address
            makes no sense.
    """
    if version not in SUPPORTED:
        raise InvalidNetworkResult(f'no converter for CNI result version {result.version} to "{version}"')
    if version != result.version and not is_at_least(version, _HAS_LISTS) and not result.ips:
        raise InvalidNetworkResult("cannot convert: no valid IP addresses")
    return replace(result, version=version)


def _encode_old(result: Result) -> JsonObject:
    document: JsonObject = {"cniVersion": result.version}
    for family, name in ((4, "ip4"), (6, "ip6")):
        first = next((each for each in result.ips if each.address.version == family), None)
        if first is None:
            continue
        entry: JsonObject = {"ip": str(first.address)}
        if first.gateway is not None:
            entry["gateway"] = str(first.gateway)
        if routes := [_route(each) for each in result.routes if each.dst.version == family]:
            entry["routes"] = [*routes]
        document[name] = entry
    document["dns"] = _dns(result.dns)
    return document


def _interface(interface: Interface, *, is_modern: bool) -> JsonValue:
    entry: JsonObject = {"name": interface.name}
    entry |= _given((("mac", interface.mac), ("sandbox", interface.sandbox)))
    if is_modern:
        entry |= _given((("mtu", interface.mtu), ("socketPath", interface.socket_path), ("pciID", interface.pci_id)))
    return entry


def _ip(ip: Ip, *, is_modern: bool) -> JsonValue:
    entry: JsonObject = {"address": str(ip.address)}
    if not is_modern:
        entry["version"] = str(ip.address.version)
    if ip.gateway is not None:
        entry["gateway"] = str(ip.gateway)
    if ip.interface is not None:
        entry["interface"] = ip.interface
    return entry


def _route(route: Route) -> JsonValue:
    entry: JsonObject = {"dst": str(route.dst)}
    if route.gateway is not None:
        entry["gw"] = str(route.gateway)
    entry |= _given((("mtu", route.mtu), ("advmss", route.advmss), ("priority", route.priority)))
    for name, number in (("table", route.table), ("scope", route.scope)):
        if number is not None:
            entry[name] = number
    return entry


def _dns(dns: Dns) -> JsonValue:
    return _given(
        (
            ("nameservers", [*dns.nameservers]),
            ("domain", dns.domain),
            ("search", [*dns.search]),
            ("options", [*dns.options]),
        )
    )


def _given(members: Iterable[tuple[str, JsonValue]]) -> JsonObject:
    return {name: value for name, value in members if value}
