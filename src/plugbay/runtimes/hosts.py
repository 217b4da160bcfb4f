"""The host name of a pod, its ``/etc/hosts``, and what the host's ``resolv.conf`` says. Pure.

Source: kubelet 1.36 ``kubelet_pods.go`` (``ensureHostsFile``, ``truncatePodHostnameIfNeeded``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.model.resolution import DnsConfig, HostAlias, alias_lines

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
    """The content of ``/etc/hosts`` in a pod with a network of its own."""
    return _HOSTS + "".join(f"{ip}\t{name}\n" for ip in ips) + alias_lines(aliases)


def parse_resolv_conf(text: str) -> DnsConfig:
    """The host's ``resolv.conf`` as a kubelet reads it: three servers, the last ``search`` line, the last option
    of each name."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        match words[0], words[1:]:
            case "nameserver", [server, *_]:
                servers.append(server)
            case "search", names:
                searches = [name.rstrip(".") or name for name in names]
            case "options", given:
                options |= {each.partition(":")[0]: each for each in given}
    return DnsConfig(tuple(servers[:3]), tuple(searches), tuple(options.values()))
