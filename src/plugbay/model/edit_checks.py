"""Checks of the edits that an author wants a container to get."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from plugbay.model.edits import ContainerEdits, DeviceNode, Mount, NetworkInterface

_PERMISSIONS: Final = frozenset("rwm")
_ENV_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
"""Source: Kubernetes 1.36 ``apimachinery/pkg/util/validation``, ``IsEnvVarName``."""
_INTERFACE: Final = re.compile(r"[^\s/:\x00-\x1f\x7f-\U0010ffff]{1,15}")
"""Source: Linux ``net/core/dev.c``, ``dev_valid_name``."""
_OF_THE_POD: Final = ("lo", "eth0")
_QUALIFIED: Final = re.compile(r"[^/=\s]+/[^/=\s]+=\S+")
"""``vendor/class=name``; the container engine checks the parts."""


def problem_of_edits(edits: ContainerEdits) -> str:
    """The reason why a kubelet could not pass ``edits`` on; empty if it could."""
    return next(_problems(edits), "")


def is_env_name(name: object) -> bool:
    """Whether a pod could use ``name`` for an environment variable."""
    return isinstance(name, str) and _ENV_NAME.fullmatch(name) is not None


def _problems(edits: ContainerEdits) -> Iterator[str]:
    for name in ("env", "annotations"):
        if not isinstance(getattr(edits, name), Mapping):
            yield f"{name} {getattr(edits, name)!r} is not a mapping"
    for name in ("mounts", "device_nodes", "cdi_devices", "interfaces"):
        if isinstance(getattr(edits, name), str) or not isinstance(getattr(edits, name), Iterable):
            yield f"{name} {getattr(edits, name)!r} is not a list"
    yield from _problems_of_env(edits.env)
    yield from _problems_of_annotations(edits.annotations)
    for mount in edits.mounts:
        if not isinstance(mount, Mount):
            yield f"mount {mount!r} is not a plugbay.Mount"
        yield from _problems_of_path(mount.container_path)
        yield from _problems_of_path(mount.host_path)
    for node in edits.device_nodes:
        if not isinstance(node, DeviceNode):
            yield f"device node {node!r} is not a plugbay.DeviceNode"
        yield from _problems_of_path(node.container_path)
        yield from _problems_of_path(node.host_path)
        if not node.permissions or not set(node.permissions) <= _PERMISSIONS:
            yield f"permissions {node.permissions!r} of {node.host_path} are not made of r, w and m"
    for name in edits.cdi_devices:
        if not _is_text(name) or not _QUALIFIED.fullmatch(name):
            yield f"CDI device {name!r} is not a qualified name such as example.com/card=card0"
    for interface in edits.interfaces:
        yield from _problems_of_interface(interface)


def _problems_of_env(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        if not is_env_name(name):
            yield f"{name!r} is not usable as an environment variable"
        elif not _is_text(value) or "\0" in value:
            yield f"{name!r} is not usable as an environment variable: its value is {value!r}"


def _problems_of_annotations(annotations: Mapping[str, str]) -> Iterator[str]:
    for key, value in annotations.items():
        if not _is_text(key) or not _is_text(value):
            yield f"annotation {key!r}: {value!r} is not made of two texts"


def _problems_of_interface(interface: object) -> Iterator[str]:
    if not isinstance(interface, NetworkInterface):
        yield f"interface {interface!r} is not a plugbay.NetworkInterface"
        return
    for name in (interface.host_name, interface.container_name):
        if not isinstance(name, str) or not _INTERFACE.fullmatch(name) or name in (".", ".."):
            yield f"{name!r} is not the name of a network interface: 1 to 15 characters, no blanks, / or :"
    if interface.container_name in _OF_THE_POD:
        taken = interface.container_name
        yield f"interface {interface.host_name} cannot be {taken} in a pod, which has one of that name"


def _problems_of_path(path: str) -> Iterator[str]:
    if not _is_text(path) or "\0" in path:
        yield f"path {path!r} is not a str or an os.PathLike without NUL"
    elif not path.startswith("/"):
        yield f"path {path!r} is not absolute"


def _is_text(value: object) -> bool:
    """Whether protobuf takes the text: file names that are not UTF-8 come as texts that cannot be encoded."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False
