"""Addresses as Go reads them, which is stricter than Python in some places. Pure."""

from __future__ import annotations

import re
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Interface4Or6: TypeAlias = IPv4Interface | IPv6Interface

_MAPPED_BITS: Final = 96
_CIDR: Final = re.compile(r"[0-9a-fA-F.:]+/[0-9]{1,3}", re.ASCII)


def plain_address(text: str) -> Address:
    """Parse an address without zone.

    Raises:
        ValueError: it is not an address.
    """
    if "%" in text:
        raise ValueError(f"{text!r} is not an IP address")
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None
    return _mapped(address) or address


def cidr(text: str) -> Interface4Or6:
    """Parse an address with the length of its prefix: ``10.0.0.2/24``.

    Raises:
        ValueError: ``text`` has another form, such as a bare address or one with a netmask.
    """
    try:
        if _CIDR.fullmatch(text):
            found = ip_interface(text)
            if mapped := _mapped(found.ip):
                return IPv4Interface((mapped, max(0, found.network.prefixlen - _MAPPED_BITS)))
            return found
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not an address with a prefix length, such as 10.0.0.2/24")


def _mapped(address: Address) -> IPv4Address | None:
    """The IPv4 address that ``::ffff:10.0.0.1`` stands for: Go makes no difference between the two."""
    return address.ipv4_mapped if isinstance(address, IPv6Address) else None
