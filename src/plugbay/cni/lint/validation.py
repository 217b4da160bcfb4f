"""Lint the files of a directory together, and against the machine that they are for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum, auto
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from plugbay.cni import places
from plugbay.cni.answers import PluginVersions
from plugbay.cni.capabilities import unserved
from plugbay.cni.config import LIST_EXTENSION, NetworkConfig, PluginConfig
from plugbay.cni.lint.findings import LintFinding, Report
from plugbay.cni.lint.known_plugins import is_add_on, origin_of
from plugbay.cni.lint.settings import host_local_ranges, subnet_of
from plugbay.cni.lint.structure import Engine, examine
from plugbay.cni.places import Path
from plugbay.cni.versions import negotiate
from plugbay.documents import JsonValue
from plugbay.documents.go_json import member
from plugbay.values import dataclass

_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_CONTAINER_LINKS: Final = ("veth", "cali", "lxc")
"""Links to containers, by the names that plugins give them: networks behind them are not the host's."""


class Absence(Enum):
    """``MISSING``: no such binary."""

    MISSING = auto()


Installed = PluginVersions | Absence | str
"""The state of a binary: its versions, that it is missing, or why it does not tell them."""


@dataclass(frozen=True, slots=True)
class Source:
    """One configuration file. ``path`` is the path that findings show."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine and the wishes that configurations are checked against.

    Attributes:
        installed: binaries by type; types that are not in it are not checked.
        directories: the directories that were searched for binaries.
        host_networks: the networks that the host routes, each with its link.
        capabilities: the capabilities that a pod would need.
    """

    installed: Mapping[str, Installed] = field(default_factory=dict)
    directories: Sequence[str] = ()
    host_networks: Sequence[tuple[IPv4Network | IPv6Network, str]] = ()
    capabilities: Mapping[str, JsonValue] = field(default_factory=dict)
    engine: Engine | None = None


@dataclass(frozen=True, slots=True)
class Validated:
    """One file and its findings; ``network`` is None if no runtime could use it."""

    source: Source
    network: NetworkConfig | None
    findings: tuple[LintFinding, ...]


def plugin_types(sources: Sequence[Source]) -> set[str]:
    """Every binary that the files need, so that they can be looked for."""
    networks = (examine(each.content, source=each.path)[0] for each in sources)
    return {name for network in networks if network for name in network.binaries}


def validate(sources: Sequence[Source], around: Surroundings) -> list[Validated]:
    """All findings about ``sources``, which stand in the order in which engines read them."""
    validated: list[Validated] = []
    earlier: list[NetworkConfig] = []
    for index, source in enumerate(sources):
        network, findings = examine(source.content, source=source.path, engine=around.engine)
        if network is not None:
            report = Report(source.path, places.scan(source.content))
            _check_binaries(report, network, around)
            if not earlier:  # pods get the first
                _check_capabilities(report, network, around)
            _check_subnets(report, network, earlier, around)
            _check_neighbours(report, network, sources[:index], earlier)
            findings += report.findings
            earlier.append(network)
        validated.append(Validated(source, network, tuple(findings)))
    return validated


def _paths(network: NetworkConfig) -> Iterator[tuple[Path, PluginConfig]]:
    is_list = network.source.endswith(LIST_EXTENSION)
    for index, plugin in enumerate(network.plugins):
        yield (("plugins", index) if is_list else ()), plugin


def _check_binaries(report: Report, network: NetworkConfig, around: Surroundings) -> None:
    known = (around.installed.get(name) for name in network.binaries)
    takers = [each.supported for each in known if isinstance(each, PluginVersions)]
    version = negotiate(network.offered, takers) or network.version
    for path, plugin in _paths(network):
        for where, name in (((*path, "type"), plugin.type), ((*path, "ipam", "type"), plugin.ipam_type)):
            if name in around.installed:
                _check_binary(report, where, name, version, around)


def _check_binary(report: Report, path: Path, name: str, version: str, around: Surroundings) -> None:
    match around.installed[name]:
        case Absence.MISSING:
            say = report.warn if is_add_on(name) else report.error
            say(path, f'no binary "{name}" in {", ".join(around.directories)}', origin_of(name))
        case str(problem):
            report.error(path, f'binary "{name}" does not say its versions: {problem}')
        case PluginVersions(_, supported) if version not in supported:
            known = ", ".join(supported)
            report.error(path, f'binary "{name}" cannot use version {version}', f"it knows {known}")
        case _:
            pass


def _check_capabilities(report: Report, network: NetworkConfig, around: Surroundings) -> None:
    for name in unserved(network, around.capabilities):
        plugin = {"portMappings": "portmap", "bandwidth": "bandwidth"}.get(name)
        hint = f'add {{"type": "{plugin}", "capabilities": {{"{name}": true}}}} to plugins' if plugin else ""
        report.error(("plugins",), f"the pod needs the capability {name}, which no plugin of the list has", hint)


def _subnets(network: NetworkConfig) -> Iterator[tuple[Path, IPv4Network | IPv6Network, str]]:
    """The subnets that a network hands out, with the link that it makes for them on the host, if that has a name."""
    for path, plugin in _paths(network):
        ipam = member(plugin.document, "ipam")
        link = str(member(plugin.document, "bridge") or "cni0") if plugin.type == "bridge" else ""
        for where, entry in host_local_ranges(ipam, (*path, "ipam")) if isinstance(ipam, dict) else ():
            subnet = subnet_of(entry)
            if subnet is not None:
                yield (*where, "subnet"), subnet.network, link


def _check_subnets(
    report: Report, network: NetworkConfig, earlier: Sequence[NetworkConfig], around: Surroundings
) -> None:
    theirs = [(each, other) for other in earlier if other.name != network.name for _, each, _ in _subnets(other)]
    for path, subnet, link in _subnets(network):
        for taken, other in theirs:
            if _overlap(subnet, taken):
                report.error(
                    path, f"{subnet} overlaps {taken} of network {other.name}", f"that one is in {other.source}"
                )
        for taken, through in around.host_networks:
            if through != link and not through.startswith(_CONTAINER_LINKS) and _overlap(subnet, taken):
                report.error(
                    path, f"{subnet} overlaps {taken}, which the host reaches through {through}", "choose another one"
                )


def _overlap(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    match one, other:
        case (IPv4Network(), IPv4Network()) | (IPv6Network(), IPv6Network()):
            return one.overlaps(other)
        case _:
            return False


def _check_neighbours(
    report: Report, network: NetworkConfig, before: Sequence[Source], earlier: Sequence[NetworkConfig]
) -> None:
    first = next((each for each in earlier if each.name == network.name), None)
    if first is not None:
        report.warn(("name",), f'another network is named "{network.name}" too', f"{first.source} is found first")
    own = _file_name(report.source)
    for source in before:
        name = _file_name(source.path)
        if _number(name) > _number(own) >= 0:
            report.warn((), f"comes after {name}: names are sorted as texts, not as numbers", "use as many digits")
    if before and own.endswith(LIST_EXTENSION) and not _file_name(before[0].path).endswith(LIST_EXTENSION):
        single = _file_name(before[0].path)
        report.warn((), f"pods get the single plugin of {single}, which comes first, and not this list")


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _number(name: str) -> int:
    """The number that a name begins with; -1 if there is none."""
    found = _NUMBER.match(name)
    return int(found[0]) if found else -1
