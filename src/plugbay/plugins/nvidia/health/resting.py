"""Devices on which the driver hangs or crashes when they are probed: they are left alone for a while. Pure.

Each such probe costs a worker process, and the next one starts later and later: one device would cost the node all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble

_FREE: Final = 1
"""The deaths that count for nothing: a worker may be killed by chance."""
_FIRST_S: Final = 2.0
_MOST_S: Final = 600.0
_DEADLY: Final = frozenset({DriverTrouble.HUNG.value, DriverTrouble.CRASHED.value})


@dataclass(frozen=True, slots=True)
class _Rest:
    deaths: int
    until: float


class RestingDevices:
    """The devices that are not to be probed now, by their IDs."""

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}

    def is_resting(self, device: str, now: float) -> bool:
        """Whether the device is to be left alone."""
        rest = self._rests.get(device)
        return rest is not None and now < rest.until

    def died(self, device: str, reason: str, now: float) -> bool:
        """The driver failed at a probe of the device, for a `DriverTrouble`; returns whether the device is to blame."""
        if reason not in _DEADLY:
            return False
        deaths = self._rests[device].deaths + 1 if device in self._rests else 1
        doublings = min(deaths - _FREE - 1, 16)
        rest_s = min(_FIRST_S * 2.0**doublings, _MOST_S) if deaths > _FREE else 0.0
        self._rests[device] = _Rest(deaths, now + rest_s)
        return deaths > _FREE

    def answered(self, device: str) -> None:
        """The driver answered a probe of the device, be it with an error."""
        self._rests.pop(device, None)
