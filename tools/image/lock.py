"""Lock files: exactly the packages that an image was made of, and what else decides its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from tools.image.inputs import Architecture, Pin
from tools.image.problems import ImageFailed

NEEDED: Final = ("libc6", "plugbay", "python3-minimal", "zlib1g")
"""Packages that every image has, and that a build asks for by name."""


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an image was made of.

    Attributes:
        epoch: seconds of the Unix clock that the image says it was made at.
        revision: of our source.
    """

    format: Literal[1] = 1
    variant: str
    epoch: int
    revision: str
    packages: Mapping[Architecture, Sequence[Pin]]


def encode(lock: Lock) -> bytes:
    return msgspec.json.format(msgspec.json.encode(lock, order="deterministic"), indent=1) + b"\n"


def read(path: Path, variant: str, architectures: Sequence[Architecture]) -> Lock:
    """The lock of a file, for this image.

    Raises:
        ImageFailed: it is not a lock, or one of another image.
    """
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=Lock)
    except OSError as failed:
        raise ImageFailed(f"cannot read the lock {path}: {failed.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as failed:
        raise ImageFailed(f"{path} is not a lock of an image: {failed}") from None
    if lock.variant != variant:
        raise ImageFailed(f"the lock {path} is of the variant {lock.variant}, and {variant} is to be made")
    if missing := [each for each in architectures if each not in lock.packages]:
        raise ImageFailed(f"the lock {path} has no packages for {', '.join(missing)}")
    for architecture in architectures:
        names = {pin.name for pin in lock.packages[architecture]}
        if absent := [name for name in NEEDED if name not in names]:
            raise ImageFailed(f"{path} is not a lock of an image: it has no {absent[0]} for {architecture}")
    return lock


def differences(locked: Sequence[Pin], found: Mapping[tuple[str, str], Pin]) -> str:
    """In words, what is there instead of locked packages."""
    told = []
    for pin in locked:
        there = found.get((pin.kind, pin.name))
        if there is None:
            told.append(f"{pin}, which is not there")
        elif there.version != pin.version:
            told.append(f"{pin}, and there is {there.version}")
        elif there.sha256 != pin.sha256:
            told.append(f"{pin} with sha256 {pin.sha256[:12]}, and there is one with {there.sha256[:12]}")
    return "the lock wants " + "; ".join(told)
