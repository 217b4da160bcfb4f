"""The units of one match as shares, of which a container gets one at most where the rules say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.plugins.generic.selecting.units import Unit


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
