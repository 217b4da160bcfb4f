"""CDI devices for engines that know nothing of CDI: what can be said in other words is, the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plugbay.cdi.convert import NOTHING, Spelled, from_cdi
from plugbay.cdi.directories import scan
from plugbay.cdi.host import find_node
from plugbay.cdi.names import names_of
from plugbay.errors import (
    CdiInjectionFailed,
    ContainerStartError,
    InvalidCdiName,
    PathUnusable,
    UnresolvableCdiDevices,
)
from plugbay.model.edits import ContainerEdits


def expand_cdi(edits: ContainerEdits, directories: Sequence[Path]) -> Spelled:
    """What the CDI devices that ``edits`` name come to. Waits for the disk if they name any.

    Args:
        directories: of spec files, weakest first; read anew each time.

    Raises:
        ContainerStartError: they are not defined, or hold what only an engine with CDI could do, such as hooks.
    """
    try:
        names = names_of(edits.cdi_devices, edits.annotations)
        if not names:
            return NOTHING
        return from_cdi(scan(directories).edits(names), names=[str(name) for name in names], find=find_node)
    except (InvalidCdiName, UnresolvableCdiDevices, CdiInjectionFailed, PathUnusable) as error:
        raise ContainerStartError("CreateContainerError", f"CDI device injection failed: {error}") from error
