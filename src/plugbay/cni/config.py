"""Network configurations: the content of files as values. Pure.

Source: CNI specification 1.1.0; libcni 1.3 ``conf.go`` for questions that it leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final, NoReturn

from plugbay.cni import places, shared_members, versions
from plugbay.documents import JsonObject, JsonValue, go_json
from plugbay.documents.go_json import kind, member
from plugbay.errors import InvalidNetworkConfig
from plugbay.values import dataclass

LIST_EXTENSION: Final = ".conflist"
SINGLE_EXTENSIONS: Final = (".conf", ".json")

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
NAME_RULE: Final = "has to begin with a letter or digit, followed by letters, digits, '_', '.' and '-'"
_IN_LIST: Final = "error parsing configuration list"
_IN_PLUGIN: Final = "error parsing configuration"


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One plugin of a network.

    Attributes:
        type: the file name of its binary.
        name: the name in the object itself; empty if it has none.
        capabilities: those that are switched on.
        document: the object as written; not to be changed.
    """

    type: str
    name: str
    capabilities: frozenset[str]
    document: JsonObject = field(hash=False)

    @property
    def ipam_type(self) -> str:
        """The file name of the binary that manages its addresses, empty without."""
        ipam = member(self.document, "ipam")
        delegated = member(ipam, "type") if isinstance(ipam, dict) else None
        return delegated if isinstance(delegated, str) else ""


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """A network: its plugins in the order in which they are called to add a container.

    Attributes:
        version: of the specification; the newest that we know, where the list offers several.
        offered: the versions that the list can be used with, ``version`` among them.
        loads_extra: whether plugins also come from files of their own, beside the list's.
        content: the list as bytes, for the cache.
        source: where it was read, for messages.
    """

    name: str
    version: str
    offered: tuple[str, ...]
    plugins: tuple[PluginConfig, ...]
    disable_check: bool
    disable_gc: bool
    loads_extra: bool
    content: bytes
    source: str

    @property
    def binaries(self) -> tuple[str, ...]:
        """The types of all plugins, those that manage addresses included, each once."""
        types = (name for plugin in self.plugins for name in (plugin.type, plugin.ipam_type) if name)
        return tuple(dict.fromkeys(types))

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities of all plugins: what they can be told at run time."""
        return frozenset().union(*(plugin.capabilities for plugin in self.plugins))


def is_valid_name(text: str) -> bool:
    """Whether ``text`` may name a network or a container."""
    return bool(_NAME.fullmatch(text))


def parse_list(content: bytes, *, source: str) -> NetworkConfig:
    """Read a ``.conflist``. Its plugins may be none yet if it takes some from files of their own; see `with_extra`.

    Raises:
        InvalidNetworkConfig: a runtime could not use it.
    """
    document = _document(content, source)
    reader = _Reader(content, source, _IN_LIST)
    name = reader.name(document.get("name"))
    version = reader.version(document)
    loads_extra = not reader.flag(document, "loadOnlyInlinedPlugins")
    return NetworkConfig(
        name,
        version,
        reader.offered(document, version),
        reader.plugins(document, loads_extra=loads_extra),
        reader.flag(document, "disableCheck"),
        reader.flag(document, "disableGC"),
        loads_extra,
        content,
        source,
    )


def parse_single(content: bytes, *, source: str) -> NetworkConfig:
    """Read a file that holds one plugin, and make a list of it.

    Raises:
        InvalidNetworkConfig: a runtime could not use it.
    """
    document = _document(content, source)
    reader = _Reader(content, source, _IN_PLUGIN)
    plugin = reader.plugin(document, ())
    name = reader.name(member(document, "name"))
    # Only a list can offer several.
    version = reader.version({"cniVersion": member(document, "cniVersion") or ""})
    wrapped: JsonObject = {"name": name, "cniVersion": version, "plugins": [document]}
    return NetworkConfig(
        name,
        version,
        (version,),
        (plugin,),
        disable_check=False,
        disable_gc=False,
        loads_extra=False,
        content=go_json.compact(wrapped, sort_keys=True).encode(),
        source=source,
    )


def parse_plugin(content: bytes, *, source: str) -> PluginConfig:
    """Read a file that adds one plugin to a list.

    Raises:
        InvalidNetworkConfig: a runtime could not use it.
    """
    return _Reader(content, source, _IN_PLUGIN).plugin(_document(content, source), ())


def with_extra(config: NetworkConfig, extra: Sequence[PluginConfig]) -> NetworkConfig:
    """``config`` with plugins from files of their own after its own.

    Raises:
        InvalidNetworkConfig: the list has no plugins.
    """
    if not config.plugins and not extra:
        raise InvalidNetworkConfig(config.source, f"{_IN_LIST}: no plugin configs found")
    if not extra:
        return config
    document = go_json.parse_plain(config.content)
    assert isinstance(document, dict)
    # The cache has to hold them too: the files may be gone when the container is removed.
    plugins = (*config.plugins, *extra)
    inlined: JsonObject = {
        **document,
        "plugins": [plugin.document for plugin in plugins],
        "loadOnlyInlinedPlugins": True,
    }
    return replace(
        config, plugins=plugins, loads_extra=False, content=go_json.compact(inlined, sort_keys=True).encode()
    )


class _Reader:
    """Reads the members of one file, and refuses them with their places."""

    def __init__(self, content: bytes, source: str, what: str) -> None:
        self._content = content
        self._source = source
        self._what = what

    def refuse(self, path: places.Path, problem: str) -> NoReturn:
        place = places.scan(self._content).of(path)
        line, column = place or (None, None)
        raise InvalidNetworkConfig(self._source, f"{self._what}: {problem}", line, column)

    def name(self, name: JsonValue) -> str:
        if name is None or name == "":
            self.refuse((), "no name")
        if not isinstance(name, str):
            self.refuse(("name",), f"invalid name type: it is {kind(name)}, not a text")
        if not is_valid_name(name):
            self.refuse(("name",), f"invalid characters found in network name {name!r}: it {NAME_RULE}")
        return name

    def version(self, document: JsonObject) -> str:
        version, offered = document.get("cniVersion", ""), document.get("cniVersions", [])
        if not isinstance(version, str):
            self.refuse(("cniVersion",), f"invalid cniVersion type: it is {kind(version)}, not a text")
        if not isinstance(offered, list):
            self.refuse(("cniVersions",), f"invalid cniVersions type: it is {kind(offered)}, not a list")
        for index, each in enumerate(offered):
            if not isinstance(each, str):
                self.refuse(("cniVersions", index), f"invalid cniVersions entry: it is {kind(each)}, not a text")
        try:
            return versions.choose(version or versions.IMPLIED, [str(each) for each in offered])
        except ValueError as error:
            self.refuse(("cniVersions" if offered else "cniVersion",), f"invalid cniVersion: {error}")

    def offered(self, document: JsonObject, chosen: str) -> tuple[str, ...]:
        """The remaining versions of a document that `version` has accepted."""
        listed = document.get("cniVersions")
        given = [document.get("cniVersion"), *(listed if isinstance(listed, list) else [])]
        return tuple(dict.fromkeys([chosen, *(str(each) for each in given if each in versions.SUPPORTED)]))

    def flag(self, document: JsonObject, name: str) -> bool:
        value = document.get(name, False)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        self.refuse((name,), f"invalid value for {name}: it has to be true or false")

    def plugins(self, document: JsonObject, *, loads_extra: bool) -> tuple[PluginConfig, ...]:
        entries = document.get("plugins")
        if "plugins" not in document:
            if loads_extra and "type" not in document:
                return ()
            single = "; a file with a single plugin ends in .conf" if "type" in document else ""
            self.refuse((), f"no 'plugins' key{single}")
        if not isinstance(entries, list):
            self.refuse(("plugins",), f"invalid 'plugins' type: it is {kind(entries)}, not a list")
        if not entries:
            self.refuse(("plugins",), "no plugins in list")
        return tuple(self.plugin(entry, ("plugins", index)) for index, entry in enumerate(entries))

    def plugin(self, entry: JsonValue, path: places.Path) -> PluginConfig:
        if not isinstance(entry, dict):
            self.refuse(path, f"{places.path_text(path)} is {kind(entry)}, not an object")
        where = f"{places.path_text(path)}: " if path else ""
        kind_of_plugin = member(entry, "type")
        if not kind_of_plugin:
            list_hint = "; a file with a list of plugins ends in .conflist" if "plugins" in entry else ""
            self.refuse(path, f"{where}missing 'type'{list_hint}")
        if not isinstance(kind_of_plugin, str):
            self.refuse((*path, "type"), f"{where}invalid type: it is {kind(kind_of_plugin)}, not a text")
        for inside, problem in shared_members.problems(entry):
            self.refuse((*path, *inside), f"{places.path_text((*path, *inside))} {problem}")
        name = member(entry, "name")
        return PluginConfig(
            kind_of_plugin, name if isinstance(name, str) else "", self._capabilities(entry, path), entry
        )

    def _capabilities(self, entry: JsonObject, path: places.Path) -> frozenset[str]:
        given = member(entry, "capabilities")
        if given is None:
            return frozenset()
        path = (*path, "capabilities")
        if not isinstance(given, dict):
            self.refuse(path, f"{places.path_text(path)} is {kind(given)}, not an object")
        for name, value in given.items():
            if value is not None and not isinstance(value, bool):
                self.refuse((*path, name), f"{places.path_text((*path, name))} is {kind(value)}, not true or false")
        return frozenset(name for name, value in given.items() if value)


def _document(content: bytes, source: str) -> JsonObject:
    try:
        value = go_json.parse_plain(content)
    except go_json.NotJson as error:
        raise InvalidNetworkConfig(source, str(error), error.line, error.column) from None
    if not isinstance(value, dict):
        raise InvalidNetworkConfig(source, f"is {kind(value)}, not an object")
    return value
