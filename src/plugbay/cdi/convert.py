"""Between CDI edits and what a device plugin answers with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plugbay.cdi.spec import DeviceNode, Edits, Mount
from plugbay.errors import CdiInjectionFailed, NotInCdi
from plugbay.model import edits as model

_ALL_PERMISSIONS: Final = "rwm"


@dataclass(frozen=True, slots=True)
class Spelled:
    """CDI edits in the words of an engine that knows no CDI.

    Attributes:
        groups: supplemental ones of the container's process.
    """

    edits: model.ContainerEdits
    groups: tuple[int, ...] = ()


NOTHING: Final = Spelled(model.NO_EDITS)


def to_cdi(edits: model.ContainerEdits) -> Edits:
    """The edits of a plugin's device as a spec has them.

    Raises:
        NotInCdi: a spec has no place for annotations, and cannot ask for the devices of others.
    """
    if edits.annotations:
        raise NotInCdi(f"the annotation {next(iter(edits.annotations))}")
    if edits.cdi_devices:
        raise NotInCdi(f"the CDI device {edits.cdi_devices[0]}")
    return Edits(
        env=tuple(f"{name}={value}" for name, value in edits.env.items()),
        device_nodes=tuple(
            DeviceNode(
                node.container_path,
                node.host_path if node.host_path != node.container_path else "",
                permissions=node.permissions,
            )
            for node in edits.device_nodes
        ),
        mounts=tuple(
            Mount(
                mount.host_path, mount.container_path, ("ro" if mount.read_only else "rw", "nosuid", "nodev", "rbind")
            )
            for mount in edits.mounts
        ),
    )


def from_cdi(edits: Edits, *, names: Sequence[str]) -> Spelled:
    """``edits`` for an engine that knows no CDI, with later ones winning as they do in CDI.

    Args:
        names: which devices they are of, for the error.

    Raises:
        CdiInjectionFailed: they hold what such an engine cannot be told, such as hooks.
    """
    if inexpressible := [*_inexpressible(edits)]:
        raise CdiInjectionFailed(
            f"CDI devices {', '.join(names)}: an engine without CDI cannot be told of {', '.join(inexpressible)}"
        )
    spelled = model.ContainerEdits(
        env=dict(each.split("=", 1) for each in edits.env),
        device_nodes=tuple(
            {
                node.path: model.DeviceNode(
                    node.host_path or node.path,
                    container_path=node.path,
                    permissions=node.permissions or _ALL_PERMISSIONS,
                )
                for node in edits.device_nodes
            }.values()
        ),
        mounts=tuple(
            {
                mount.container_path: model.Mount(
                    mount.host_path, container_path=mount.container_path, read_only="ro" in mount.options
                )
                for mount in edits.mounts
            }.values()
        ),
    )
    return Spelled(spelled, tuple(dict.fromkeys(gid for gid in edits.additional_gids if gid)))


def _inexpressible(edits: Edits) -> list[str]:
    found = []
    if edits.hooks:
        found.append("hooks")
    if edits.intel_rdt is not None:
        found.append("intelRdt")
    if edits.net_devices:
        found.append("netDevices")
    if any(
        node.major or node.file_mode is not None or node.uid is not None or node.gid is not None
        for node in edits.device_nodes
    ):
        found.append("numbers, modes or owners of device nodes")
    return found
