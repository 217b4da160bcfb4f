"""The files of a pod in ``/etc`` of its containers, in place of the root file system's. Pure.

Source: kubelet 1.36 ``kubelet_pods.go`` (``ensureHostsFile``), ``network/dns/dns.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.model.resolution import NO_DNS, DnsConfig, DnsPolicy, alias_lines, pod_dns
from plugbay.runtimes.hosts import hosts_text
from plugbay.runtimes.sandboxes import SandboxSpec
from plugbay.values import dataclass

HOSTS: Final = "hosts"
HOSTNAME: Final = "hostname"
RESOLV_CONF: Final = "resolv.conf"


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The text of the host's ``/etc/hosts``, and what its ``/etc/resolv.conf`` says."""

    hosts: str = ""
    dns: DnsConfig | None = None


def wanted_files(spec: SandboxSpec) -> dict[str, str]:
    """Files that a field of the pod is about: that field, by the name of the file."""
    wanted = {HOSTS: "spec.hostAliases"} if spec.pod.spec.host_aliases else {}
    if spec.pod.spec.dns != NO_DNS or spec.pod.spec.dns_policy is DnsPolicy.NONE:
        wanted[RESOLV_CONF] = "spec.dnsConfig"
    return wanted


def pod_files(spec: SandboxSpec, *, ips: Sequence[str], hostname: str, host: HostFiles) -> dict[str, str]:
    """The text of each file, by its name in ``/etc``; those are left out that can be the host's.

    Args:
        ips: the pod's own; none on the host's network.
        hostname: empty where containers are called like the host.
    """
    files = {HOSTNAME: f"{hostname}\n"} if hostname else {}
    if ips:
        files[HOSTS] = hosts_text(ips, hostname, spec.pod.spec.host_aliases)
    elif spec.pod.spec.host_aliases:
        files[HOSTS] = host.hosts + alias_lines(spec.pod.spec.host_aliases)
    if RESOLV_CONF in wanted_files(spec):
        files[RESOLV_CONF] = _resolv_conf(pod_dns(spec.pod.spec.dns_policy, spec.pod.spec.dns, host=host.dns) or NO_DNS)
    return files


def _resolv_conf(dns: DnsConfig) -> str:
    lines = [f"nameserver {each}" for each in dns.servers]
    if dns.searches:
        lines.insert(0, f"search {' '.join(dns.searches)}")
    if dns.options:
        lines.append(f"options {' '.join(dns.options)}")
    return "".join(f"{line}\n" for line in lines)
