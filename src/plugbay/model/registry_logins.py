"""Logins at registries of images, out of secrets as ``docker login`` writes them. Pure.

Source: Kubernetes 1.36 ``pkg/credentialprovider/keyring.go``, ``config.go``, ``pkg/credentialprovider/secrets``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Final

from plugbay.values import dataclass

DOCKER_CONFIG_JSON: Final = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG: Final = "kubernetes.io/dockercfg"
_KEYS: Final = {DOCKER_CONFIG_JSON: ".dockerconfigjson", DOCKER_CONFIG: ".dockercfg"}
_HUB: Final = "index.docker.io"
_HUB_NAMES: Final = ("docker.io", _HUB)
_WHOLE_REGISTRY: Final = ("", "v1", "v2")
"""The paths in a registry's address that say nothing about images."""


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """A login for images whose names begin with ``place``: a host, perhaps with ``*`` and port, then a path."""

    place: str
    username: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PullAccess:
    """The logins that a pod has.

    Attributes:
        missing: the names of secrets that there are not, or that hold no logins.
    """

    logins: tuple[RegistryLogin, ...] = ()
    missing: tuple[str, ...] = ()


NO_PULL_ACCESS: Final = PullAccess()


def logins_of(kind: str, values: Mapping[str, bytes]) -> tuple[RegistryLogin, ...] | None:
    """The logins in a secret of type ``kind``; None if it is not one of logins."""
    try:
        read = json.loads(values[_KEYS[kind]])
    except (KeyError, ValueError):
        return None
    entries = read.get("auths") if kind == DOCKER_CONFIG_JSON and isinstance(read, dict) else read
    if not isinstance(entries, dict):
        return None
    found = [(place, entry) for place, entry in entries.items() if isinstance(entry, dict)]
    return tuple(RegistryLogin(_place(place), *_user(entry)) for place, entry in found)


def logins_for(image: str, logins: Iterable[RegistryLogin]) -> list[RegistryLogin]:
    """The logins that are good for ``image``, those for the most particular place first."""
    name = _full_name(image)
    fitting = [each for each in logins if _fits(each.place, name)]
    return sorted(dict.fromkeys(fitting), key=lambda login: login.place, reverse=True)


def _place(text: str) -> str:
    place = text.removeprefix("https://").removeprefix("http://")
    host, _, path = place.partition("/")
    path = path.strip("/")
    host = _HUB if host in _HUB_NAMES else host
    return host if path in _WHOLE_REGISTRY else f"{host}/{path}"


def _user(entry: Mapping[str, object]) -> tuple[str, str]:
    """Name and password; both together, in base64, go before."""
    if isinstance(auth := entry.get("auth"), str) and auth:
        try:
            name, _, password = base64.b64decode(auth).decode().partition(":")
        except (binascii.Error, ValueError):
            return "", ""
        return name, password.strip("\0")
    return str(entry.get("username") or ""), str(entry.get("password") or "")


def _full_name(image: str) -> str:
    """``image`` with the host of its registry."""
    host, slash, rest = image.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        return f"{_HUB}/{image}"
    return f"{_HUB}/{rest}" if host in _HUB_NAMES else image


def _fits(place: str, image: str) -> bool:
    host, _, path = place.partition("/")
    image_host, _, image_path = image.partition("/")
    name, _, port = host.partition(":")
    image_name, _, image_port = image_host.partition(":")
    labels, image_labels = name.split("."), image_name.split(".")
    return (
        port == image_port
        and len(labels) == len(image_labels)
        and all(fnmatchcase(found, wanted) for wanted, found in zip(labels, image_labels, strict=True))
        and image_path.startswith(path)
    )
