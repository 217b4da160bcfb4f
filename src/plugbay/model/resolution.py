"""Name resolution in a pod's containers: DNS and ``/etc/hosts``. Pure.

Source: kubelet 1.36 ``network/dns/dns.go``, ``kubelet_pods.go`` (``hostsEntriesFromHostAliases``).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from plugbay.values import dataclass

MAX_SERVERS: Final = 3
MAX_SEARCHES: Final = 32


class DnsPolicy(Enum):
    """The source of a pod's ``resolv.conf``. There is no cluster here, so the host's file serves instead."""

    CLUSTER_FIRST = "ClusterFirst"
    CLUSTER_FIRST_WITH_HOST_NET = "ClusterFirstWithHostNet"
    DEFAULT = "Default"
    NONE = "None"


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """The contents of ``resolv.conf``; an option is ``NAME`` or ``NAME:VALUE``."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


NO_DNS: Final = DnsConfig()


@dataclass(frozen=True, slots=True)
class HostAlias:
    """A line of ``/etc/hosts``."""

    ip: str
    names: tuple[str, ...]


def pod_dns(policy: DnsPolicy | None, own: DnsConfig, *, host: DnsConfig | None) -> DnsConfig | None:
    """The settings for a pod's containers: the host's, unless the policy is ``None``, and the pod's own after them.

    None leaves them to the engine. If both set an option, the pod's value wins.
    """
    if own == NO_DNS and policy is not DnsPolicy.NONE:
        return host
    base = NO_DNS if host is None or policy is DnsPolicy.NONE else host
    options = {each.partition(":")[0]: each for each in (*base.options, *own.options)}
    return DnsConfig(
        _distinct(base.servers + own.servers)[:MAX_SERVERS],
        _distinct(base.searches + own.searches)[:MAX_SEARCHES],
        tuple(options.values()),
    )


def alias_lines(aliases: Iterable[HostAlias]) -> str:
    """The last lines of ``/etc/hosts``."""
    lines = "".join("\t".join((alias.ip, *alias.names)) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}" if lines else ""


def _distinct(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
