"""Runtime handlers, among which a pod's ``runtimeClassName`` chooses.

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
"""The kind of devices that are named by index, UUID or ``all``; other kinds are written out."""
_ALL: Final = "all"
_NOTHING: Final = frozenset({"", "void", "none"})


class OciHandler(Enum):
    """A way to make the containers of a pod; the value is the runtime class that asks for it."""

    PLAIN = ""
    RUNC = "runc"
    CRUN = "crun"
    NVIDIA = "nvidia"


def handler_of(runtime_class: str, *, engine: str) -> OciHandler | None:
    """The handler of a runtime class; None if there is none. That of an engine is there if it is the node's."""
    try:
        handler = OciHandler(runtime_class)
    except ValueError:
        return None
    if handler in (OciHandler.RUNC, OciHandler.CRUN) and handler.value != engine:
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
        known: the devices that specs define. If no spec defines ``all``, ``all`` means every device of the kind.

    Raises:
        InvalidCdiName: a name in the variable cannot be the name of a device.
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
