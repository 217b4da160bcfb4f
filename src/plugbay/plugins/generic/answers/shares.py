"""The units of one match as shares: what they are shares of, and which of them one container may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.config.rules import Tokens
from plugbay.plugins.generic.selecting.units import Unit


def first_shares(units: Mapping[DeviceId, Unit]) -> Mapping[DeviceId, DeviceId]:
    """The ID of the first share of the device that each unit is a share of; each token is a device by itself."""
    first: dict[object, DeviceId] = {}
    shares = {}
    for id, unit in sorted(units.items(), key=lambda each: each[1].copy):
        match = unit.nodes, unit.mounts, unit.interfaces, unit.physical
        shares[id] = id if isinstance(unit.group.what, Tokens) else first.setdefault(match, id)
    return shares


def share_key(unit: Unit) -> str:
    """Equal for units that may not be in one container together; empty for a unit that goes with all others."""
    return unit.physical if unit.group.has_one_share_per_container else ""


def problem_of_shares(units: Iterable[Unit]) -> str:
    """The sentence about two shares of one device in a request; empty if there are none."""
    first: dict[str, Unit] = {}
    for unit in units:
        key = share_key(unit)
        if key and (other := first.setdefault(key, unit)) is not unit:
            return (
                f"{other.id} and {unit.id} are shares of the same device, {_shown(unit)}, and a container gets one of "
                "them at most (onePerContainer): fewer other devices are free than the container asks for, or the "
                "kubelet has not followed the plugin's preference"
            )
    return ""


def _shown(unit: Unit) -> str:
    return ", ".join(node.host_path for node in unit.nodes) or unit.facts.get("path") or unit.physical
