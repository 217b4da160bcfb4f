"""Spec files of the NVIDIA plugin. Blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from plugbay.cdi.directories import save, spec_name
from plugbay.cdi.spec import Spec
from plugbay.cdi.text import Format
from plugbay.plugins.nvidia.answers.features import VENDOR, CdiClass


def write_specs(specs: Mapping[CdiClass, Spec | None], directory: Path) -> frozenset[CdiClass]:
    """Write the specs into ``directory``, each as a whole or not at all, and return the classes that have one.

    A class without a spec or without devices loses its file: the reference leaves old files behind, whose devices are
    gone.

    Raises:
        PathUnusable: a file cannot be written.
    """
    written = set()
    for device_class, spec in specs.items():
        name = spec_name(VENDOR, device_class.value)
        if spec is not None and spec.devices:
            save(spec, directory, name, form=Format.JSON)
            written.add(device_class)
        else:
            with contextlib.suppress(FileNotFoundError):
                (directory / f"{name}{Format.JSON.value}").unlink()
    return frozenset(written)
