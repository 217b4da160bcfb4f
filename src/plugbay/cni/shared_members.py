"""The members of a plugin's object that engines read themselves, whatever the plugin. Pure.

Source: libcni 1.3 ``pkg/types/types.go``, ``PluginConf``: the engine refuses the whole file if one is of another kind.
``capabilities`` is not here, as `plugbay.cni.config` reads it anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from plugbay.cni.places import Path
from plugbay.documents import JsonValue
from plugbay.documents.go_json import folded, kind

_Wanted: TypeAlias = "type | list[_Wanted] | dict[str, _Wanted]"
"""``str`` is a text; a list holds what each item has to be, a mapping what members of these names have to be."""

_TEXTS: Final[_Wanted] = [str]
_PLUGIN: Final[Mapping[str, _Wanted]] = {
    "type": str,
    "name": str,
    "cniVersion": str,
    "ipam": {"type": str},
    "dns": {"nameservers": _TEXTS, "domain": str, "search": _TEXTS, "options": _TEXTS},
    "prevResult": {},
    "cni.dev/valid-attachments": [{"containerID": str, "ifname": str}],
}


def problems(entry: Mapping[str, JsonValue]) -> Iterator[tuple[Path, str]]:
    """The places in a plugin's object that an engine cannot read, with the faults. Null is read as nothing."""
    yield from _problems(dict(entry), dict(_PLUGIN), ())


def _problems(value: JsonValue, wanted: _Wanted, path: Path) -> Iterator[tuple[Path, str]]:
    match wanted, value:
        case _, None:
            pass
        case dict(), dict():
            by_name = {folded(name): each for name, each in wanted.items()}
            for name, each in value.items():
                if folded(name) in by_name:
                    yield from _problems(each, by_name[folded(name)], (*path, name))
        case list(), list():
            for index, each in enumerate(value):
                yield from _problems(each, wanted[0], (*path, index))
        case dict(), _:
            yield path, f"is {kind(value)}, not an object"
        case list(), _:
            yield path, f"is {kind(value)}, not a list"
        case _ if not isinstance(value, str):
            yield path, f"is {kind(value)}, not a text"
