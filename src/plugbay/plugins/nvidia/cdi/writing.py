"""Spec files of the NVIDIA plugin. Blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import save, spec_name
from plugbay.cdi.spec import Spec
from plugbay.cdi.text import Format
from plugbay.errors import PathUnusable
from plugbay.plugins.nvidia.answers.features import VENDOR, CdiClass
from plugbay.sdk.inspection.leftovers.leftover import DomainSpecs

SPECS: Final = DomainSpecs(
    domain="nvidia.com",
    files=tuple(f"{spec_name(VENDOR, each.value)}{Format.JSON.value}" for each in CdiClass),
    sockets=("nvidia.com_", "nvidia-"),
)
"""The files that may be left. NVIDIA's plugin writes files of the same names; one of its sockets is nvidia-gpu.sock."""


def write_specs(specs: Mapping[CdiClass, Spec | None], directory: Path) -> frozenset[CdiClass]:
    """Write the specs into ``directory``, each as a whole or not at all, and return the classes that have one.

    A class without a spec or without devices loses its file: the reference leaves old files behind, whose devices are
    gone.

    Raises:
        PathUnusable: a file cannot be written or removed.
    """
    written = set()
    for device_class, spec in specs.items():
        name = spec_name(VENDOR, device_class.value)
        if spec is not None and spec.devices:
            save(spec, directory, name, form=Format.JSON)
            written.add(device_class)
        else:
            _remove(path_of(device_class, directory))
    return frozenset(written)


def has_specs(classes: Collection[CdiClass], directory: Path) -> bool:
    """Whether the classes still have their files, which other programs may have removed."""
    return all(path_of(each, directory).exists() for each in classes)


def path_of(device_class: CdiClass, directory: Path) -> Path:
    """The file of a class."""
    return directory / f"{spec_name(VENDOR, device_class.value)}{Format.JSON.value}"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # then it holds no file either
    except OSError as error:
        raise PathUnusable(str(path), f"is out of date and cannot be removed: {error.strerror}") from error
