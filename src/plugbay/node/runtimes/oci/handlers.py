"""Runtime handlers: what a pod's ``runtimeClassName`` chooses.

The handler ``nvidia`` does what nvidia-container-runtime does in its ``cdi`` mode: a container whose environment names
GPUs in ``NVIDIA_VISIBLE_DEVICES`` gets them and the driver's files through CDI, every other one runs untouched. It
comes after the CDI devices that plugins ask for, whose specs may say that nothing is left to do: ``void``.

Source: nvidia-container-toolkit 1.20 ``internal/modifier/cdi.go``, ``internal/config/image``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final

from plugbay.cdi.names import QualifiedName, parse_qualified_name

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
AS_MOUNTS: Final = "/var/run/nvidia-container-devices"
"""The value that says that the devices are the names of what is mounted right below; nothing else can be in there."""
DEFAULT_KIND: Final = "nvidia.com/gpu"
"""Of devices that are named by index, UUID or ``all``; other kinds are written out."""
_ALL: Final = "all"
_NOTHING: Final = frozenset({"", "void", "none"})


class Handler(Enum):
    """How containers of a pod are made; the value is the runtime class that asks for it."""

    PLAIN = ""
    RUNC = "runc"
    CRUN = "crun"
    NVIDIA = "nvidia"


def handler_of(runtime_class: str, *, engine: str) -> Handler | None:
    """The handler of a runtime class; None if there is none. That of an engine is there if it is the node's."""
    try:
        handler = Handler(runtime_class)
    except ValueError:
        return None
    if handler in (Handler.RUNC, Handler.CRUN) and handler.value != engine:
        return None
    return handler


def asks_for_devices(env: Mapping[str, str]) -> bool:
    """Whether the handler ``nvidia`` has anything to do for a container with this environment."""
    return env.get(VISIBLE_DEVICES, "") not in _NOTHING


def visible_devices(
    env: Mapping[str, str], *, mounted: Iterable[str], known: Collection[QualifiedName]
) -> tuple[QualifiedName, ...]:
    """The CDI devices that a container's environment asks the handler ``nvidia`` for, each once.

    Args:
        mounted: paths in the container at which something is mounted.
        known: what specs define. One that defines no ``all``, as those of plugbay, has all devices of the kind meant.

    Raises:
        InvalidCdiName: one is written as no device can be called.
    """
    if not asks_for_devices(env):
        return ()
    value = env[VISIBLE_DEVICES]
    words = _names_below(AS_MOUNTS, mounted) if value == AS_MOUNTS else value.split(",")
    names = [parse_qualified_name(each if "=" in each else f"{DEFAULT_KIND}={each}") for each in words if each]
    return tuple(dict.fromkeys(device for name in names for device in _meant(name, known)))


def _names_below(directory: str, paths: Iterable[str]) -> list[str]:
    return [posixpath.basename(path) for path in paths if posixpath.dirname(path) == directory]


def _meant(name: QualifiedName, known: Collection[QualifiedName]) -> list[QualifiedName]:
    same_kind = sorted(each for each in known if each.kind == name.kind)
    return same_kind if name.name == _ALL and name not in known and same_kind else [name]
