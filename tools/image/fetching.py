"""Finding out which packages make an image, and fetching them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.image import debian, wheels
from tools.image.apt import Apt, Stanza
from tools.image.inputs import Architecture, by_sha256
from tools.image.tree import Tree

EXTRAS: Final = {"plugins": ("metrics",), "nvidia": ("metrics", "nvidia")}
"""The variants of the image, and the extras of plugbay that each has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A package, unpacked."""

    file: Path
    name: str
    version: str
    tree: Tree
    stanza: Stanza


def debian_parts(architecture: Architecture, directory: Path) -> list[Part]:
    """Python and all libraries that it and wheels may need, fetched into ``directory``, which is empty."""
    apt = Apt(directory / "apt", architecture)
    apt.update()
    chosen = debian.choose(apt.candidates)
    files = directory / "debs"
    files.mkdir()
    apt.download({name: stanza["Version"] for name, stanza in chosen.items()}, files)
    fetched = by_sha256(files.iterdir())
    parts = []
    for name, stanza in sorted(chosen.items()):
        file = fetched[stanza["SHA256"]]
        said, tree = debian.unpack(file)
        parts.append(Part(file, name, stanza["Version"], tree, said))
    return parts


def needed(parts: Sequence[Part], *wheels: Tree) -> list[Part]:
    """Of Debian's packages those that Python needs, or these wheels."""
    kept = debian.needed({part.name: part.tree for part in parts}, wheels)
    return [part for part in parts if part.name in kept]


def wheel_files(ours: Path, variant: str, target: wheels.Target, directory: Path) -> Sequence[Path]:
    """Our wheel and those that it requires, ours last."""
    extras = ",".join(EXTRAS[variant])
    wheels.download([f"plugbay[{extras}] @ {ours.resolve().as_uri()}"], target, directory)
    others = sorted(path for path in directory.glob("*.whl") if path.name != ours.name)
    return [*others, ours]
