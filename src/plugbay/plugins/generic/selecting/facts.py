"""The properties of a unit that templates of its rules ask for; others are not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.plugins.generic.selecting.ports import Hardware

IDENTITY = "identity"


def facts_of(
    names: Iterable[str], device: SysDevice | None, own: Mapping[str, str], hardware: Hardware
) -> dict[str, str]:
    """Those of ``names`` that a device has, and those that a unit has of its own, which count first."""
    facts = dict(own)
    if device is not None:
        for name in names:
            if name not in facts:
                value = hardware.identity(device) if name == IDENTITY else hardware.property_of(device, name)
                if value is not None:
                    facts[name] = value
    return facts
