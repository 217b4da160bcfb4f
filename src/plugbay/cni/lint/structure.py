"""Lint one configuration file on its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from plugbay.cni import places
from plugbay.cni.capabilities import WELL_KNOWN
from plugbay.cni.config import LIST_EXTENSION, NetworkConfig, PluginConfig, parse_list, parse_single
from plugbay.cni.lint.findings import LintFinding, Report, Severity
from plugbay.cni.lint.known_plugins import CHAINED, COMMON, MEMBERS
from plugbay.cni.lint.settings import check_ipam, check_kinds, check_settings
from plugbay.cni.places import Path, Place
from plugbay.cni.versions import SUPPORTED, is_at_least
from plugbay.documents import JsonObject, go_json
from plugbay.documents.go_json import member
from plugbay.errors import InvalidNetworkConfig

_LIST_MEMBERS: Final = frozenset(
    {"cniVersion", "cniVersions", "name", "disableCheck", "disableGC", "loadOnlyInlinedPlugins", "plugins"}
)
_KUBERNETES_MINIMUM: Final = "0.4.0"
_RECOMMENDED: Final = "1.0.0"
_NEWER: Final = 'write "1.0.0", which is all that nodes need; newer ones go into cniVersions'
_RESERVED: Final = "cni.dev/"


class Engine(Enum):
    """The engine that shall use a configuration; the value is its name on the command line."""

    CONTAINERD_1 = "containerd-1"
    CONTAINERD_2 = "containerd-2"
    PLUGBAY = "plugbay"

    @property
    def newest(self) -> str:
        """The newest version of the specification it reads results of."""
        return "1.0.0" if self is Engine.CONTAINERD_1 else "1.1.0"


def examine(
    content: bytes, *, source: str, engine: Engine | None = None
) -> tuple[NetworkConfig | None, list[LintFinding]]:
    """Read one file; returns its network, or None if no runtime could use it, and all findings about it.

    Args:
        source: its path; the extension tells whether it is a list.
        engine: None for any.
    """
    parse = parse_list if source.endswith(LIST_EXTENSION) else parse_single
    try:
        network = parse(content, source=source)
    except InvalidNetworkConfig as error:
        place = Place(error.line, error.column) if error.line and error.column else None
        return None, [LintFinding(Severity.ERROR, source, place, "", error.problem)]
    document = go_json.parse_plain(content)
    assert isinstance(document, dict)
    found = places.scan(content)
    report = Report(source, found)
    for path, _ in found.repeated:
        report.warn(path, "occurs twice in one object; the last one counts")
    _check_version(report, network, document, engine)
    if parse is parse_list:
        _check_members(report, (), document, _LIST_MEMBERS)
    for index, plugin in enumerate(network.plugins):
        _check_plugin(report, ("plugins", index) if parse is parse_list else (), plugin, index)
    return network, report.findings


def _check_version(report: Report, network: NetworkConfig, document: JsonObject, engine: Engine | None) -> None:
    path: Path = ("cniVersion",)
    if not document.get("cniVersion") and not document.get("cniVersions"):
        report.warn((), "no cniVersion, which means 0.1.0", f'write "cniVersion": "{_RECOMMENDED}"')
    elif network.version not in SUPPORTED:
        known = ", ".join(SUPPORTED)
        report.error(path, f"{network.version} is not a version of the CNI specification", f"there are {known}")
        return
    if not is_at_least(network.version, _KUBERNETES_MINIMUM):
        hint = f'Kubernetes needs {_KUBERNETES_MINIMUM} or newer; write "{_RECOMMENDED}"'
        report.warn(path, f"version {network.version} is too old for Kubernetes", hint)
    _check_engine(report, str(document.get("cniVersion") or network.version), network.version, engine)


def _check_engine(report: Report, written: str, chosen: str, engine: Engine | None) -> None:
    # Engines before 1.1.0 do not know cniVersions, and take what is written.
    if engine is None:
        if not is_at_least(Engine.CONTAINERD_1.newest, written):
            report.warn(
                ("cniVersion",), f"containerd 1.x cannot use version {written}, and says so only in ADD", _NEWER
            )
        return
    used = written if engine is Engine.CONTAINERD_1 else chosen
    if not is_at_least(engine.newest, used):
        report.error(("cniVersion",), f"{engine.value} cannot use version {used}; it knows {engine.newest}", _NEWER)


def _check_plugin(report: Report, path: Path, plugin: PluginConfig, index: int) -> None:
    if set("/\0") & set(plugin.type):
        report.error(
            (*path, "type"), f"{plugin.type!r} is not a file name", "only directories of --bin-dir are searched"
        )
    if index == 0 and plugin.type in CHAINED:
        problem = f"{plugin.type} changes what another plugin made, and so cannot be the first"
        report.error((*path, "type"), problem, "put it behind the plugin that makes the interface")
    if plugin.type in MEMBERS:
        _check_members(report, path, plugin.document, COMMON | MEMBERS[plugin.type])
        check_kinds(report, path, plugin)
    _check_capabilities(report, path, plugin)
    check_settings(report, path, plugin)
    check_ipam(report, path, plugin)


def _check_capabilities(report: Report, path: Path, plugin: PluginConfig) -> None:
    for name in sorted(plugin.capabilities - WELL_KNOWN):
        if close := _closest(name, WELL_KNOWN):
            report.warn(
                (*path, "capabilities", name), "is not a capability that runtimes know", f'did you mean "{close}"?'
            )
    wanted = {"portmap": "portMappings", "bandwidth": "bandwidth"}.get(plugin.type)
    is_static = plugin.type == "bandwidth" and any(member(plugin.document, each) for each in MEMBERS["bandwidth"])
    if is_static and wanted in plugin.capabilities:
        report.warn(path, "the limits of pods are ignored, as this object has its own", "leave one of the two out")
    elif wanted and wanted not in plugin.capabilities and not is_static:
        problem = f"{plugin.type} gets nothing from the engine, as its capability {wanted} is not switched on"
        report.warn(path, problem, f'add "capabilities": {{"{wanted}": true}}')


def _check_members(report: Report, path: Path, document: JsonObject, known: frozenset[str]) -> None:
    folded = {each.lower() for each in known}
    for name in document:
        # Plugins match their members without regard to case; the list's are matched exactly.
        if name in known or name.startswith(_RESERVED) or (known is not _LIST_MEMBERS and name.lower() in folded):
            continue
        close = _closest(name, known)
        report.warn((*path, name), "is not known here, and ignored", f'did you mean "{close}"?' if close else "")


def _closest(name: str, known: Iterable[str]) -> str:
    # Imported here: only a wrong name pays for it.
    from difflib import get_close_matches

    by_case = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_case, n=1, cutoff=0.75)
    return by_case[close[0]] if close else ""
