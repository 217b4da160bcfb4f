"""Runtime handlers: what a pod's ``runtimeClassName`` chooses.

The handler ``nvidia`` does what nvidia-container-runtime does in its ``cdi`` mode: a container whose environment names
GPUs in ``NVIDIA_VISIBLE_DEVICES`` gets them and the driver's files through CDI, every other one runs untouched.

Source: nvidia-container-toolkit 1.20 ``internal/modifier/cdi.go``, ``internal/config/image``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from plugbay.cdi.names import QualifiedName, parse_qualified_name

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
DEFAULT_KIND: Final = "nvidia.com/gpu"
"""Of devices that are named by index, UUID or ``all``; other kinds are written out."""
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


def visible_devices(env: Mapping[str, str]) -> tuple[QualifiedName, ...]:
    """The CDI devices that a container's environment asks the handler ``nvidia`` for, each once.

    Raises:
        InvalidCdiName: one is written as no device can be called.
    """
    value = env.get(VISIBLE_DEVICES, "")
    if value in _NOTHING:
        return ()
    names = (each if "=" in each else f"{DEFAULT_KIND}={each}" for each in value.split(",") if each)
    return tuple(dict.fromkeys(map(parse_qualified_name, names)))
