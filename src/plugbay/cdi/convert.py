"""Convert between CDI edits and the edits of a device plugin's answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from plugbay.cdi.nodes import FoundNode
from plugbay.cdi.spec import Edits, NetDevice, SpecDeviceNode, SpecMount
from plugbay.errors import CdiInjectionFailed, NotInCdi
from plugbay.model import edits as model
from plugbay.values import dataclass

Find: TypeAlias = Callable[[str], FoundNode | None]
"""The device node that a path of the host leads to, if it leads to one."""

_ALL_PERMISSIONS: Final = "rwm"


@dataclass(frozen=True, slots=True)
class Spelled:
    """CDI edits in the terms of an engine without CDI.

    Attributes:
        groups: supplemental groups of the container's process.
    """

    edits: model.ContainerEdits
    groups: tuple[int, ...] = ()


NOTHING: Final = Spelled(model.NO_EDITS)


def to_cdi(edits: model.ContainerEdits, find: Find = lambda _: None) -> Edits:
    """The edits of a plugin's device as a spec has them.

    Args:
        find: looks at the host's device nodes. What it finds has its mode and its owner in the container too, as when
            engines are told of nodes otherwise; by a spec without them they give it mode 0666 and to the process.

    Raises:
        NotInCdi: a spec has no place for annotations, and cannot ask for the devices of others.
    """
    if edits.annotations:
        raise NotInCdi(f"the annotation {next(iter(edits.annotations))}")
    if edits.cdi_devices:
        raise NotInCdi(f"the CDI device {edits.cdi_devices[0]}")
    return Edits(
        env=tuple(f"{name}={value}" for name, value in edits.env.items()),
        device_nodes=tuple(_node(node, find(node.host_path)) for node in edits.device_nodes),
        mounts=tuple(
            SpecMount(
                mount.host_path, mount.container_path, ("ro" if mount.read_only else "rw", "nosuid", "nodev", "rbind")
            )
            for mount in edits.mounts
        ),
        net_devices=tuple(NetDevice(each.host_name, each.container_name) for each in edits.interfaces),
    )


def _node(node: model.DeviceNode, found: FoundNode | None) -> SpecDeviceNode:
    host_path = node.host_path if found is None else found.path
    host = None if found is None else found.node
    return SpecDeviceNode(
        node.container_path,
        host_path if host_path != node.container_path else "",
        permissions=node.permissions,
        file_mode=None if host is None else host.mode,
        uid=None if host is None else host.uid,
        gid=None if host is None else host.gid,
    )


def from_cdi(edits: Edits, *, names: Sequence[str], find: Find = lambda _: None) -> Spelled:
    """``edits`` for an engine without CDI; later edits win, as they do in CDI.

    Args:
        find: looks at the host's device nodes, whose modes and owners such an engine gives to those of containers.
        names: the devices that the edits belong to, for the error.

    Raises:
        CdiInjectionFailed: they hold something that such an engine cannot take, such as hooks.
    """
    if inexpressible := [*_inexpressible(edits, find)]:
        raise CdiInjectionFailed(
            f"CDI devices {', '.join(names)}: an engine without CDI cannot be given {', '.join(inexpressible)}"
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


def _inexpressible(edits: Edits, find: Find) -> list[str]:
    found = []
    if edits.hooks:
        found.append("hooks")
    if edits.intel_rdt is not None:
        found.append("intelRdt")
    if edits.net_devices:
        found.append("netDevices")
    if any(node.major or _is_unlike(node, find) for node in edits.device_nodes):
        found.append("numbers, modes or owners of device nodes")
    return found


def _is_unlike(node: SpecDeviceNode, find: Find) -> bool:
    """Whether the spec wants another mode or owner than the host's node has."""
    wanted = node.file_mode, node.uid, node.gid
    if wanted == (None, None, None):
        return False
    found = find(node.host_path or node.path)
    if found is None:
        return True
    has = found.node.mode, found.node.uid, found.node.gid
    return any(each is not None and each != other for each, other in zip(wanted, has, strict=True))
