"""What a pod is called, and what its ``/etc/hosts`` says: pure.

Source: kubelet 1.36 ``kubelet_pods.go`` (``ensureHostsFile``, ``truncatePodHostnameIfNeeded``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.model.resolution import HostAlias, alias_lines

_MAX_HOSTNAME: Final = 63
_HOSTS: Final = (
    "# Made by plugbay for this pod.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def hostname(name: str) -> str:
    """A host name has 63 characters at most, and ends with none of those that join words."""
    return name[:_MAX_HOSTNAME].rstrip("-.")


def hosts_text(ips: Iterable[str], name: str, aliases: Iterable[HostAlias] = ()) -> str:
    """What ``/etc/hosts`` says in a pod with a network of its own."""
    return _HOSTS + "".join(f"{ip}\t{name}\n" for ip in ips) + alias_lines(aliases)
