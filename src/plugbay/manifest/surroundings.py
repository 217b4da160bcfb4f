"""The surroundings of a pod, between v1 and our values: DNS, host aliases and sysctls, with their checks.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``kubelet/sysctl/safe_sysctls.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, TypedDict

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model.dns import SUBDOMAIN
from plugbay.model.field_path import FieldPath
from plugbay.model.pods import PodSpec
from plugbay.model.resolution import MAX_SEARCHES, MAX_SERVERS, DnsConfig, DnsPolicy, HostAlias

_DNS: Final[FieldPath] = ("spec", "dnsConfig")
_SYSCTLS: Final[FieldPath] = ("spec", "securityContext", "sysctls")
_REQUIRED: Final = "Required value"
_NO_ADDRESS: Final = "must be a valid IP address"
_MAX_SEARCH_CHARACTERS: Final = 2048
_DOMAIN: Final = re.compile(r"[a-z0-9_](?:[-a-z0-9_]*[a-z0-9_])?(?:\.[a-z0-9_](?:[-a-z0-9_]*[a-z0-9_])?)*\.?|\.")
_SAFE_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)


class V1DnsOption(TypedDict, total=False):
    name: str
    value: str


class V1DnsConfig(TypedDict, total=False):
    nameservers: list[str]
    searches: list[str]
    options: list[V1DnsOption]


class V1HostAlias(TypedDict, total=False):
    ip: str
    hostnames: list[str]


class V1Sysctl(TypedDict, total=False):
    name: str
    value: str


def dns_of(v1: V1DnsConfig) -> DnsConfig:
    return DnsConfig(
        tuple(v1.get("nameservers", [])),
        tuple(v1.get("searches", [])),
        tuple(
            f"{name}:{value}" if (value := option.get("value", "")) else name
            for option in v1.get("options", [])
            if (name := option.get("name", ""))
        ),
    )


def dns_to_v1(dns: DnsConfig) -> dict[str, object]:
    options = []
    for option in dns.options:
        name, _, value = option.partition(":")
        options.append({"name": name, "value": value} if value else {"name": name})
    fields = {"nameservers": list(dns.servers), "searches": list(dns.searches), "options": options}
    return {name: value for name, value in fields.items() if value}


def aliases_of(v1: Iterable[V1HostAlias]) -> tuple[HostAlias, ...]:
    return tuple(HostAlias(each.get("ip", ""), tuple(each.get("hostnames", []))) for each in v1)


def aliases_to_v1(aliases: Iterable[HostAlias]) -> list[dict[str, object]]:
    return [{"ip": alias.ip, **({"hostnames": list(alias.names)} if alias.names else {})} for alias in aliases]


def sysctls_of(v1: Iterable[V1Sysctl]) -> dict[str, str]:
    """A name may have slashes where others write dots."""
    return {each.get("name", "").replace("/", "."): each.get("value", "") for each in v1}


def sysctls_to_v1(sysctls: Mapping[str, str]) -> list[dict[str, object]]:
    return [{"name": name, "value": value} for name, value in sysctls.items()]


def check_surroundings(spec: PodSpec, sysctls: Iterable[V1Sysctl], report: ManifestReport) -> None:
    """Report what an API server would refuse, and of sysctls what a kubelet would not allow.

    Args:
        sysctls: as they were written, where names can be given twice.
    """
    _check_dns(spec, report)
    for index, alias in enumerate(spec.host_aliases):
        where: FieldPath = ("spec", "hostAliases", index)
        _check_address(alias.ip, (*where, "ip"), report)
        for number, name in enumerate(alias.names):
            if not re.fullmatch(SUBDOMAIN, name):
                report.problem((*where, "hostnames", number), invalid(name, "must be a lowercase RFC 1123 subdomain"))
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name = sysctl.get("name", "").replace("/", ".")
        _check_sysctl(name, (*_SYSCTLS, index, "name"), report, on_host=spec.host_network, seen=seen)
        seen.add(name)


def _check_dns(spec: PodSpec, report: ManifestReport) -> None:
    dns = spec.dns
    if spec.dns_policy is DnsPolicy.NONE and not dns.servers:
        problem = f"{_REQUIRED}: must provide at least one DNS nameserver when `dnsPolicy` is None"
        report.problem((*_DNS, "nameservers"), problem)
    if len(dns.servers) > MAX_SERVERS:
        report.problem((*_DNS, "nameservers"), f"must not have more than {MAX_SERVERS} nameservers")
    for index, server in enumerate(dns.servers):
        _check_address(server, (*_DNS, "nameservers", index), report)
    if len(dns.searches) > MAX_SEARCHES:
        report.problem((*_DNS, "searches"), f"must not have more than {MAX_SEARCHES} search paths")
    elif len(" ".join(dns.searches)) > _MAX_SEARCH_CHARACTERS:
        problem = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        report.problem((*_DNS, "searches"), problem)
    for index, search in enumerate(dns.searches):
        if not _DOMAIN.fullmatch(search):
            report.problem((*_DNS, "searches", index), invalid(search, "must be a lowercase RFC 1123 subdomain"))


def _check_sysctl(name: str, path: FieldPath, report: ManifestReport, *, on_host: bool, seen: set[str]) -> None:
    if not name:
        report.problem(path, _REQUIRED)
    elif name in seen:
        report.problem(path, f'Duplicate value: "{name}"')
    elif name not in _SAFE_SYSCTLS:
        report.problem(path, f'forbidden sysctl: "{name}" not allowlisted')
    elif on_host and name.startswith("net."):
        report.problem(path, invalid(name, "may not be specified when 'hostNetwork' is true"))


def _check_address(text: str, path: FieldPath, report: ManifestReport) -> None:
    if not text:
        report.problem(path, _REQUIRED)
        return
    try:
        ip_address(text)
    except ValueError:
        report.problem(path, invalid(text, _NO_ADDRESS))
