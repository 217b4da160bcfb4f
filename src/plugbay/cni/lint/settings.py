"""Find the settings that the official plugins would refuse, before a container needs them. Pure.

Source: containernetworking plugins 1.9: ``bridge``, ``portmap``, ``bandwidth``, ``host-local``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.cni.addresses import Interface4Or6, cidr, plain_address
from plugbay.cni.config import PluginConfig
from plugbay.cni.lint.findings import Report
from plugbay.cni.lint.known_plugins import BOOLEANS, HOST_LOCAL, INTEGERS, LISTS, OFFICIAL, TEXTS
from plugbay.cni.places import Path
from plugbay.documents import JsonObject, JsonValue
from plugbay.documents.go_json import kind, member

_RANGES: Final = 'such as "ranges": [[{"subnet": "10.22.0.0/16"}]]'
_MAX_BURST_BYTES: Final = 2**32 - 1
_MAX_MARK_BIT: Final = 31
_MAX_VLAN: Final = 4094
_KINDS: Final[tuple[tuple[frozenset[str], type, str], ...]] = (
    (BOOLEANS, bool, "true or false"),
    (INTEGERS, int, "an integer"),
    (TEXTS, str, "a text"),
    (LISTS, list, "a list"),
)


def check_settings(report: Report, path: Path, plugin: PluginConfig) -> None:
    """Report the settings that ``plugin`` would refuse, if its rules are known."""
    match plugin.type:
        case "bridge":
            _check_bridge(report, path, plugin.document)
        case "portmap":
            _check_portmap(report, path, plugin.document)
        case "bandwidth":
            _check_bandwidth(report, path, plugin.document)
        case "ptp" if not plugin.ipam_type:
            report.error(path, "ptp needs ipam", 'add "ipam": {"type": "host-local", "ranges": …}')
        case _:
            pass


def check_kinds(report: Report, path: Path, plugin: PluginConfig) -> None:
    """Report members of an official plugin whose values are of a kind that it cannot read."""
    for name, value in plugin.document.items():
        for names, kinds, article in _KINDS:
            if name in names and value is not None and (not isinstance(value, kinds) or _is_misplaced(value, kinds)):
                report.error((*path, name), f"is {kind(value)}, not {article}")


def check_ipam(report: Report, path: Path, plugin: PluginConfig) -> None:
    """Report the settings that the plugin's address manager would refuse, if it is host-local below an official plugin.

    Other plugins may fill in settings themselves: Calico replaces ``usePodCidr``.
    """
    ipam = member(plugin.document, "ipam")
    if not isinstance(ipam, dict) or not ipam:
        return
    path = (*path, "ipam")
    if not plugin.ipam_type:
        report.error(path, "missing 'type'", "it names the plugin that gives addresses, such as host-local")
    if plugin.ipam_type != "host-local" or plugin.type not in OFFICIAL:
        return
    for name in ipam:
        if name not in HOST_LOCAL:
            report.warn((*path, name), "is not known to host-local, and ignored")
    _check_ranges(report, path, ipam)
    ranges = list(host_local_ranges(ipam, path))
    if not ranges and not member(ipam, "ranges"):
        report.error(path, "no IP ranges specified", _RANGES)
    for where, entry in ranges:
        _check_range(report, where, entry)


def host_local_ranges(ipam: JsonObject, path: Path) -> Iterator[tuple[Path, JsonObject]]:
    """The ranges of a host-local object with their places, those of the older form first."""
    if member(ipam, "subnet"):
        yield path, ipam
    sets = member(ipam, "ranges")
    for outer, each in enumerate(sets if isinstance(sets, list) else []):
        for inner, entry in enumerate(each if isinstance(each, list) else []):
            if isinstance(entry, dict):
                yield (*path, "ranges", outer, inner), entry


def subnet_of(entry: JsonObject) -> Interface4Or6 | None:
    """The subnet of a range; None if it is not a subnet."""
    text = member(entry, "subnet")
    try:
        return cidr(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _check_range(report: Report, path: Path, entry: JsonObject) -> None:
    subnet = subnet_of(entry)
    if subnet is None:
        report.error((*path, "subnet"), f"{member(entry, 'subnet')!r} is not a subnet, such as 10.22.0.0/16")
        return
    if subnet.network.max_prefixlen - subnet.network.prefixlen < 2:
        report.error((*path, "subnet"), f"network {subnet.network} is too small to allocate from")
    elif subnet.ip != subnet.network.network_address:
        report.error((*path, "subnet"), f"{subnet} is an address, not a network, which would be {subnet.network}")
    for name in ("rangeStart", "rangeEnd", "gateway"):
        text = member(entry, name)
        if not text:
            continue
        try:
            is_inside = plain_address(str(text)) in subnet.network
        except ValueError as error:
            report.error((*path, name), str(error))
            continue
        if not is_inside and name != "gateway":
            report.error((*path, name), f"{text} is not in {subnet.network}")


def _check_bridge(report: Report, path: Path, document: JsonObject) -> None:
    if member(document, "hairpinMode") and member(document, "promiscMode"):
        report.error(path, "cannot set hairpin mode and promiscuous mode at the same time")
    vlan = _number(member(document, "vlan"))
    if not 0 <= vlan <= _MAX_VLAN:
        report.error((*path, "vlan"), f"invalid VLAN ID {vlan} (must be between 0 and {_MAX_VLAN})")


def _check_portmap(report: Report, path: Path, document: JsonObject) -> None:
    bit, backend = member(document, "markMasqBit"), member(document, "backend")
    if bit is not None and member(document, "externalSetMarkChain"):
        report.error(path, "cannot specify externalSetMarkChain and markMasqBit")
    if isinstance(bit, int) and not 0 <= bit <= _MAX_MARK_BIT:
        report.error((*path, "markMasqBit"), f"has to be between 0 and {_MAX_MARK_BIT}")
    if backend is not None and backend not in ("iptables", "nftables"):
        report.error((*path, "backend"), f"unrecognized backend {backend!r}", "there are iptables and nftables")


def _check_bandwidth(report: Report, path: Path, document: JsonObject) -> None:
    for direction in ("ingress", "egress"):
        rate, burst = (_number(member(document, f"{direction}{each}")) for each in ("Rate", "Burst"))
        if rate and not burst:
            report.error(path, f"if {direction}Rate is set, {direction}Burst must also be set")
        if burst and not rate:
            report.error(path, f"if {direction}Burst is set, {direction}Rate must also be set")
        if burst // 8 >= _MAX_BURST_BYTES:
            report.error((*path, f"{direction}Burst"), "cannot be more than 4 GB")


def _is_misplaced(value: JsonValue, wanted: type) -> bool:
    return isinstance(value, bool) and wanted is int  # Python would let it pass


def _check_ranges(report: Report, path: Path, ipam: JsonObject) -> None:
    """Host-local takes a list of sets, each of which is a list of ranges."""
    sets = member(ipam, "ranges")
    if sets is not None and not isinstance(sets, list):
        report.error((*path, "ranges"), f"is {kind(sets)}, not a list of lists", _RANGES)
    for index, each in enumerate(sets if isinstance(sets, list) else []):
        if not isinstance(each, list):
            report.error((*path, "ranges", index), f"is {kind(each)}, not a list of ranges", _RANGES)


def _number(value: JsonValue) -> int:
    """A number of the document; 0 if there is none, or if it is something else, which `check_kinds` reports."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
