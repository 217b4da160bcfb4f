"""Finding out which packages make an image, and fetching them into a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.image import debian, wheels
from tools.image.apt import Apt, Stanza
from tools.image.inputs import Kind, Pin, sha256_of
from tools.image.lock import differences
from tools.image.problems import ImageFailed
from tools.image.store import Store
from tools.image.tree import Tree

EXTRAS: Final = {"plugins": ("metrics",), "nvidia": ("metrics", "nvidia")}
"""The variants of the image, and the extras of plugbay that each has."""


@dataclass(frozen=True, slots=True)
class DebianPart:
    """A Debian package, unpacked."""

    pin: Pin
    stanza: Stanza
    tree: Tree


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A wheel, with the files that it is installed as."""

    pin: Pin
    file: Path
    tree: Tree


def debian_parts(apt: Apt, store: Store) -> list[DebianPart]:
    """Python and all libraries that it and wheels may need, as apt would install them now."""
    chosen = debian.choose(apt.candidates)
    pins = [_pin(stanza) for _, stanza in sorted(chosen.items())]
    _download(apt, store.missing(pins), store)
    return [_unpacked(pin, store) for pin in pins]


def locked_debian_parts(apt: Apt, locked: Sequence[Pin], store: Store) -> list[DebianPart]:
    """Exactly these packages.

    Raises:
        ImageFailed: apt has others.
    """
    pins = [pin for pin in locked if pin.kind is Kind.DEB]
    if missing := store.missing(pins):
        try:
            _download(apt, missing, store)
        except ImageFailed as failed:
            there = {
                (str(Kind.DEB), stanza["Package"]): _pin(stanza) for stanza in apt.known(pin.name for pin in missing)
            }
            others = [pin for pin in missing if there.get((Kind.DEB, pin.name)) != pin]
            raise ImageFailed(differences(others, there)) if others else failed from None
    return [_unpacked(pin, store) for pin in pins]


def needed(parts: Sequence[DebianPart], *installed: Tree) -> list[DebianPart]:
    """Of Debian's packages those that Python needs, or these wheels."""
    kept = debian.needed({part.pin.name: part.tree for part in parts}, installed)
    return [part for part in parts if part.pin.name in kept]


def wheel_parts(ours: Path, variant: str, target: wheels.Target, store: Store) -> list[WheelPart]:
    """Our wheel, which is the first, and those that it requires, as pip would install them now."""
    extras = ",".join(EXTRAS[variant])
    with TemporaryDirectory() as directory:
        wheels.download([f"plugbay[{extras}] @ {ours.resolve().as_uri()}"], target, Path(directory))
        fetched = sorted(path for path in Path(directory).glob("*.whl") if path.name != ours.name)
        files = [ours, *(store.add(path) for path in fetched)]
    return [wheel_part(file, target.python) for file in files]


def locked_wheel_parts(locked: Sequence[Pin], target: wheels.Target, store: Store) -> list[WheelPart]:
    """Exactly these wheels, of which ours is in the store; ours is the first.

    Raises:
        ImageFailed: pip does not find one.
    """
    pins = [pin for pin in locked if pin.kind is Kind.WHEEL]
    if missing := store.missing(pins):
        with TemporaryDirectory() as directory:
            wheels.download_pinned(missing, target, Path(directory))
            for path in sorted(Path(directory).glob("*.whl")):
                store.add(path)
        if missing := store.missing(missing):
            raise ImageFailed(differences(missing, {}))
    parts = [wheel_part(store[pin.sha256], target.python) for pin in pins]
    return sorted(parts, key=lambda part: part.pin.name != wheels.PROGRAM)


def wheel_part(file: Path, python: str) -> WheelPart:
    return WheelPart(wheels.pin(file), file, wheels.unpack(file, python))


def _download(apt: Apt, pins: Sequence[Pin], store: Store) -> None:
    with TemporaryDirectory() as directory:
        apt.download({pin.name: pin.version for pin in pins}, Path(directory))
        files = {sha256_of(path): path for path in sorted(Path(directory).glob("*.deb"))}
        if strange := [pin for pin in pins if pin.sha256 not in files]:
            raise ImageFailed(f"apt has fetched something else than {strange[0]} with sha256 {strange[0].sha256[:12]}")
        for path in files.values():
            store.add(path)


def _pin(stanza: Stanza) -> Pin:
    return Pin(Kind.DEB, stanza["Package"], stanza["Version"], stanza["SHA256"])


def _unpacked(pin: Pin, store: Store) -> DebianPart:
    stanza, tree = debian.unpack(store[pin.sha256])
    return DebianPart(pin, stanza, tree)
