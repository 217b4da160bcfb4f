"""Network links of the namespace the calling thread is in.

Source: Linux ``netdevice(7)``; ``/proc/net/if_inet6``.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from enum import Enum
from ipaddress import IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import Final

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_SIOCGIFADDR: Final = 0x8915
_SIOCGIFNETMASK: Final = 0x891B
_IFF_UP: Final = 1
_REQUEST_BYTES: Final = 40
_NAME_BYTES: Final = 16


class LinkState(Enum):
    UP = "up"
    DOWN = "down"


def link_state(name: str) -> LinkState:
    """Whether the link ``name`` of this thread's network namespace is up.

    Raises:
        OSError: there is no such link.
    """
    return LinkState.UP if _flags(name) & _IFF_UP else LinkState.DOWN


def set_link_state(name: str, state: LinkState) -> None:
    """Bring the link ``name`` of this thread's network namespace up, or take it down.

    Raises:
        OSError: there is no such link, or this process may not change it.
    """
    flags = _flags(name)
    flags = flags | _IFF_UP if state is LinkState.UP else flags & ~_IFF_UP
    _request(_SIOCSIFFLAGS, name, struct.pack("H", flags))


def link_addresses(name: str, *, proc_root: Path) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """The first IPv4 address, then the IPv6 addresses; without a family that the kernel does not have."""
    found: list[IPv4Interface | IPv6Interface] = []
    try:
        address, mask = (_request(code, name)[4:8] for code in (_SIOCGIFADDR, _SIOCGIFNETMASK))
        found.append(IPv4Interface(f"{socket.inet_ntoa(address)}/{socket.inet_ntoa(mask)}"))
    except OSError:
        pass
    try:
        lines = (proc_root / "thread-self/net/if_inet6").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        lines = []
    for digits, _, prefix, _, _, link in (line.split() for line in lines):
        if link == name:
            found.append(IPv6Interface((IPv6Address(int(digits, 16)), int(prefix, 16))))
    return tuple(found)


def _flags(name: str) -> int:
    flags: int = struct.unpack_from("H", _request(_SIOCGIFFLAGS, name))[0]
    return flags


def _request(code: int, name: str, value: bytes = b"") -> bytes:
    """Send a ``struct ifreq`` to the kernel; returns the part behind the name of the one that comes back."""
    request = array.array(
        "B", name.encode().ljust(_NAME_BYTES, b"\0") + value.ljust(_REQUEST_BYTES - _NAME_BYTES, b"\0")
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, code, request)
    return request.tobytes()[_NAME_BYTES:]
