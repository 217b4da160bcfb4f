"""What an image says about itself: its SBOM, and the records of packages that scanners read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from tools.image import licences, sbom, wheels
from tools.image.apt import Stanza
from tools.image.fetching import DebianPart, WheelPart
from tools.image.inputs import Architecture
from tools.image.sbom import Component
from tools.image.tree import File, Tree

_STATUS: Final = "var/lib/dpkg/status.d"
"""Where scanners look for packages in images without dpkg."""


def records(parts: Sequence[DebianPart]) -> Tree:
    """The records of dpkg."""
    tree = Tree()
    for part in parts:
        text = "".join(f"{field}: {value}\n" for field, value in part.stanza.items())
        tree.add(f"{_STATUS}/{part.pin.name}", File(text.encode()))
    return tree


def components(
    system: Sequence[DebianPart], installed: Sequence[WheelPart], tree: Tree, architecture: Architecture
) -> list[Component]:
    """Every package of an image whose files are in ``tree``."""
    release = _release(tree)
    distribution = f"{release['ID']}-{release['VERSION_ID']}"
    found = []
    for part in system:
        url = sbom.purl(part.pin, distribution=distribution, architecture=part.stanza["Architecture"])
        licence = licences.of_debian(_source(part.stanza), _text(tree, f"usr/share/doc/{part.pin.name}/copyright"))
        found.append(Component(part.pin, url, licence, release["NAME"], part.stanza.get("Homepage", "")))
    for wheel in installed:
        url = sbom.purl(wheel.pin, distribution=distribution, architecture=architecture)
        found.append(Component(wheel.pin, url, licences.of_wheel(wheels.metadata(wheel.file))))
    return found


def _source(stanza: Stanza) -> str:
    return stanza.get("Source", stanza["Package"]).split(" ")[0]


def _text(tree: Tree, path: str) -> str:
    """Of a file; empty when it is not there."""
    entry = tree[path] if path in tree else None
    return entry.content.decode(errors="replace") if isinstance(entry, File) else ""


def _release(tree: Tree) -> dict[str, str]:
    lines = [line.partition("=") for line in _text(tree, "usr/lib/os-release").splitlines() if "=" in line]
    return {name: "".join(shlex.split(value)) for name, _, value in lines}
