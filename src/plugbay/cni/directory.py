"""Find and read configuration files on disk, in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from plugbay.cni.config import (
    LIST_EXTENSION,
    SINGLE_EXTENSIONS,
    NetworkConfig,
    PluginConfig,
    parse_list,
    parse_plugin,
    parse_single,
    with_extra,
)
from plugbay.errors import InvalidNetworkConfig, NetworkNotFound

_T = TypeVar("_T")

EXTENSIONS: Final = (LIST_EXTENSION, *SINGLE_EXTENSIONS)
_EXTRA_EXTENSION: Final = ".conf"


def config_files(directory: Path, extensions: Iterable[str] = EXTENSIONS) -> list[Path]:
    """The files with exactly these extensions, sorted by name, byte by byte; none of a directory that is missing.

    Directories are not looked into.

    Raises:
        InvalidNetworkConfig: the directory cannot be read.
    """
    wanted = frozenset(extensions)
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in entries if _extension(each.name) in wanted and not each.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidNetworkConfig(str(directory), f"cannot be read: {error.strerror}") from error
    return [directory / name for name in sorted(names, key=os.fsencode)]


def load_file(path: Path) -> NetworkConfig:
    """The network of one file: a list by the extension ``.conflist``, else a single plugin.

    A list also gets the plugins of the files in the directory beside it that has the network's name, unless it says
    ``loadOnlyInlinedPlugins``.

    Raises:
        InvalidNetworkConfig: a runtime could not use it.
    """
    if _extension(path.name) != LIST_EXTENSION:
        return _load(path, parse_single)
    config = _load(path, parse_list)
    return with_extra(config, _extra_plugins(path.parent / config.name) if config.loads_extra else [])


def load_named(directory: Path, name: str) -> NetworkConfig:
    """The network called ``name``: the first list, else the first single plugin.

    Raises:
        NetworkNotFound: there is none.
        InvalidNetworkConfig: it, or a file before it, is of no use: it could have been the one.

    Source: libcni 1.3 ``conf.go``, ``LoadNetworkConf``.
    """
    for extensions in ((LIST_EXTENSION,), SINGLE_EXTENSIONS):
        for path in config_files(directory, extensions):
            config = load_file(path)
            if config.name == name:
                return config
    raise NetworkNotFound(name, str(directory))


def load_default(directory: Path) -> NetworkConfig:
    """The network that pods get: the one in the first file.

    Raises:
        NetworkNotFound: there is none.
        InvalidNetworkConfig: that file cannot be used. The next file would give pods a network that was not chosen.

    Source: containerd 1.7, with its ``max_conf_num`` of 1.
    """
    paths = config_files(directory)
    if not paths:
        raise NetworkNotFound("", str(directory))
    return load_file(paths[0])


def _extension(name: str) -> str:
    """The part of a name from its last dot on, as Go takes it; it may be the whole name."""
    _, dot, end = name.rpartition(".")
    return dot + end if dot else ""


def _extra_plugins(directory: Path) -> list[PluginConfig]:
    return [_load(path, parse_plugin) for path in config_files(directory, (_EXTRA_EXTENSION,))]


def _load(path: Path, parse: Callable[..., _T]) -> _T:
    if path.is_fifo() or path.is_char_device():  # one may have no writer, the other no end
        raise InvalidNetworkConfig(str(path), "is a FIFO or a device, not a file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidNetworkConfig(str(path), f"cannot be read: {error.strerror}") from error
    return parse(content, source=str(path))
