"""Kinds, qualified device names, and the annotations that carry them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from plugbay.errors import InvalidCdiName

ANNOTATION_PREFIX: Final = "cdi.k8s.io/"
MAX_ANNOTATION_NAME: Final = 63

_MIDDLE: Final = re.compile(r"[A-Za-z0-9_.-]*\Z")
_DEVICE_MIDDLE: Final = re.compile(r"[A-Za-z0-9_.:-]*\Z")
_LETTER: Final = re.compile(r"[A-Za-z]")
_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")


@dataclass(frozen=True, slots=True, order=True)
class CdiKind:
    """``vendor/class``: the vendor of the devices, and their class among those of the vendor."""

    vendor: str
    device_class: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.device_class}"


@dataclass(frozen=True, slots=True, order=True)
class QualifiedName:
    """``vendor/class=name``."""

    kind: CdiKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}={self.name}"


def parse_kind(text: str) -> CdiKind:
    """``vendor/class``, divided at the first slash.

    Raises:
        InvalidCdiName: it has no slash, or a part breaks the rules.
    """
    vendor, slash, device_class = text.partition("/")
    if not slash:
        raise InvalidCdiName("kind", text, "it has to be vendor/class")
    _check_part("kind", text, "vendor", vendor)
    _check_part("kind", text, "class", device_class)
    return CdiKind(vendor, device_class)


def check_device_name(name: str) -> None:
    """Raises `InvalidCdiName` unless ``name`` can stand right of the ``=``."""
    if not name:
        raise InvalidCdiName("device name", name, "it is empty")
    _check_text("device name", name, "device name", name, first=_ALPHANUMERIC, middle=_DEVICE_MIDDLE)


def parse_qualified_name(text: str) -> QualifiedName:
    """A fully qualified device name.

    Raises:
        InvalidCdiName: a part is missing, or breaks the rules.
    """
    kind, equals, name = text.partition("=")
    vendor, slash, device_class = kind.partition("/")
    if not vendor or (not equals and not slash):
        raise InvalidCdiName("device", text, "it is unqualified: vendor/class=name is wanted, the vendor is missing")
    if not slash or not device_class:
        raise InvalidCdiName("device", text, "it is unqualified: vendor/class=name is wanted, the class is missing")
    if not name:
        raise InvalidCdiName("device", text, "it is unqualified: vendor/class=name is wanted, the name is missing")
    _check_part("device", text, "vendor", vendor)
    _check_part("device", text, "class", device_class)
    _check_text("device", text, "name", name, first=_ALPHANUMERIC, middle=_DEVICE_MIDDLE)
    return QualifiedName(CdiKind(vendor, device_class), name)


def annotation_key(plugin: str, device_id: str) -> str:
    """The key of a container annotation that asks for CDI devices.

    Raises:
        InvalidCdiName: no such key is allowed.
    """
    name = f"{plugin}_{device_id.replace('/', '_')}"
    if len(name) > MAX_ANNOTATION_NAME:
        raise InvalidCdiName("annotation", name, f"it is longer than {MAX_ANNOTATION_NAME} characters")
    _check_text("annotation", name, "name", name, first=_ALPHANUMERIC, middle=_MIDDLE)
    return ANNOTATION_PREFIX + name


def names_in(annotations: Mapping[str, str]) -> tuple[QualifiedName, ...]:
    """The devices that container annotations ask for, by key, each once.

    Raises:
        InvalidCdiName: one is not qualified; an engine then injects nothing.
    """
    found: dict[QualifiedName, None] = {}
    for key in sorted(annotations):
        if key.startswith(ANNOTATION_PREFIX):
            found.update((parse_qualified_name(each), None) for each in annotations[key].split(","))
    return tuple(found)


def names_of(texts: Iterable[str], annotations: Mapping[str, str]) -> tuple[QualifiedName, ...]:
    """The devices asked for by name, then those of the annotations; each once, in the order of containerd."""
    return tuple(dict.fromkeys((*map(parse_qualified_name, texts), *names_in(annotations))))


def _check_part(what: str, whole: str, part: str, text: str) -> None:
    if not text:
        raise InvalidCdiName(what, whole, f"its {part} is empty")
    _check_text(what, whole, part, text, first=_LETTER, middle=_MIDDLE)


def _check_text(
    what: str, whole: str, part: str, text: str, *, first: re.Pattern[str], middle: re.Pattern[str]
) -> None:
    its = "it" if text == whole else f"its {part} {text!r}"
    if not first.match(text):
        starts = "a letter" if first is _LETTER else "a letter or digit"
        raise InvalidCdiName(what, whole, f"{its} has to start with {starts}")
    if not _ALPHANUMERIC.match(text[-1]):
        raise InvalidCdiName(what, whole, f"{its} has to end with a letter or digit")
    if not middle.match(text):
        wrong = next(each for each in text if not middle.match(each))
        raise InvalidCdiName(what, whole, f"{its} holds {wrong!r}")
