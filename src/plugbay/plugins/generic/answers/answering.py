"""The answer to Allocate: what the devices of one container give it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.errors import AllocationError, ConflictingEdits, InvalidDevice
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount, merge_devices
from plugbay.plugins.generic.answers.devices import annotations_of, env_of
from plugbay.plugins.generic.answers.host_paths import problems_of_paths
from plugbay.plugins.generic.answers.shares import problem_of_shares
from plugbay.plugins.generic.selecting.units import Unit

_JOIN: Final = ","

Granted = Sequence[tuple[Unit, Device]]
"""The units of a request with their devices, in the order of their IDs."""


def answer(granted: Granted, *, has_cdi: bool = False, root: Path = Path("/")) -> ContainerEdits:
    """The edits of a container with all of ``granted``. Blocks: it looks at their paths on the host.

    Args:
        has_cdi: whether the devices are given by their names in CDI; then these are only the things beside them, which
            depend on the container's other devices, as joined variables do, or for which CDI has no place.
        root: of the machine's files.

    Raises:
        AllocationError: they cannot be given, or not together.
    """
    _check(granted, root)
    try:
        merged = merge_devices(device.edits for _, device in granted)
        beside = merge_devices(ContainerEdits(annotations=annotations_of(unit)) for unit, _ in granted)
        numbered = _numbered(granted)
    except (ConflictingEdits, InvalidDevice) as error:
        raise AllocationError(str(error)) from error
    joined = _joined(granted)
    if both := joined.keys() & numbered.keys():
        raise AllocationError(f"the variable {min(both)} comes from a device, and from the number of another one too")
    if has_cdi:
        return replace(beside, env={**(joined if len(granted) > 1 else {}), **numbered})
    return replace(merged, env={**joined, **numbered})


def _joined(granted: Granted) -> dict[str, str]:
    """The variables without a number: the different values that devices have for each, but for empty ones."""
    values: dict[str, dict[str, None]] = {}
    for _, device in granted:
        for name, value in device.edits.env.items():
            values.setdefault(name, {})[value] = None
    return {name: _JOIN.join(filter(None, each)) for name, each in values.items()}


def _numbered(granted: Granted) -> dict[str, str]:
    """The variables with the number of their device in their names."""
    return {name: value for index, (unit, _) in enumerate(granted) for name, value in env_of(unit, index=index).items()}


def _check(granted: Granted, root: Path) -> None:
    units = [unit for unit, _ in granted]
    if problem := problem_of_shares(units) or _collision(granted):
        raise AllocationError(problem)
    problems = dict.fromkeys(
        problem for unit, device in granted for problem in problems_of_paths(unit, device.edits.mounts, root=root)
    )
    if problems:
        raise AllocationError("; ".join(problems))


def _collision(granted: Granted) -> str:
    """The sentence about two devices that want different things at one path of the container; empty if none do."""
    placed: dict[str, tuple[Device, Mount | DeviceNode]] = {}
    for _, device in granted:
        things: tuple[Mount | DeviceNode, ...] = (*device.edits.device_nodes, *device.edits.mounts)
        for thing in things:
            other, before = placed.setdefault(thing.container_path, (device, thing))
            if before != thing:
                return (
                    f"{other.id} and {device.id} want {before.host_path} and {thing.host_path} at the same path of the "
                    f"container, {thing.container_path}: in the plugin's config, end mountPath with a /, so that "
                    "each keeps its own name"
                )
    inside: dict[str, str] = {}
    for _, device in granted:
        for interface in device.edits.interfaces:
            if (host := inside.setdefault(interface.container_name, interface.host_name)) != interface.host_name:
                return (
                    f"the network interfaces {host} and {interface.host_name} would both be {interface.container_name} "
                    "in the pod: in the plugin's config, name the interface in interfaceName, as in {name}"
                )
    return ""
