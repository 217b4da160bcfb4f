"""The networks that the host's routing tables name.

Source: Linux ``/proc/net/route``, ``/proc/net/ipv6_route``.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

_LOOPBACK: Final = "lo"
_REJECTED: Final = 0x0200


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """Packets to ``network`` leave through ``link``."""

    network: IPv4Network | IPv6Network
    link: str


def read_routes(*, proc_root: Path) -> list[KernelRoute]:
    """The routes of our network namespace, without default routes, loopback and multicast."""
    tables = ((parse_routes, "route"), (parse_routes6, "ipv6_route"))
    found: list[KernelRoute] = []
    for parse, name in tables:
        try:
            found += parse((proc_root / "net" / name).read_text(encoding="ascii"))
        except FileNotFoundError:  # the kernel does not have the family
            continue
    return [
        each for each in found if each.network.prefixlen and each.link != _LOOPBACK and not each.network.is_multicast
    ]


def parse_routes(text: str) -> Iterator[KernelRoute]:
    """The IPv4 table: addresses are numbers in the machine's byte order, here little-endian, in hexadecimal."""
    for line in text.splitlines()[1:]:
        link, destination, *_, mask, _, _, _ = line.split()
        address, bits = (IPv4Address(bytes.fromhex(each)[::-1]) for each in (destination, mask))
        yield KernelRoute(IPv4Network(f"{address}/{bits}", strict=False), link)


def parse_routes6(text: str) -> Iterator[KernelRoute]:
    """The IPv6 table without routes that only refuse, and without link-local ones, which every link has."""
    for line in text.splitlines():
        destination, prefix, *_, flags, link = line.split()
        network = IPv6Network((IPv6Address(int(destination, 16)), int(prefix, 16)), strict=False)
        if not int(flags, 16) & _REJECTED and not network.is_link_local:
            yield KernelRoute(network, link)
