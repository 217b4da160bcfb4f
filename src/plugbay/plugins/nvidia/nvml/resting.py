"""Subjects of which the driver dies, hanging or crashing, when it is asked: they are left alone for a while. Pure.

They are devices that are probed, and things that the plugin can do without. Each such death costs a worker process, and
the next one starts later and later: one device would cost the node all.
"""

from __future__ import annotations

from typing import Final

from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.values import dataclass

_FREE: Final = 1
"""The deaths that count for nothing: a worker may be killed by chance."""
_FIRST_S: Final = 2.0
_MOST_S: Final = 600.0
_DEADLY: Final = frozenset({DriverTrouble.HUNG.value, DriverTrouble.CRASHED.value})


@dataclass(frozen=True, slots=True)
class _Rest:
    deaths: int
    until: float


class RestingSubjects:
    """The subjects that the driver is not to be asked for now, by their names."""

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}

    def is_resting(self, subject: str, now: float) -> bool:
        """Whether the subject is to be left alone."""
        rest = self._rests.get(subject)
        return rest is not None and now < rest.until

    def died(self, subject: str, reason: str, now: float) -> bool:
        """The driver failed at a question, for a `DriverTrouble`; returns whether the subject is to blame."""
        if reason not in _DEADLY:
            return False
        deaths = self._rests[subject].deaths + 1 if subject in self._rests else 1
        doublings = min(deaths - _FREE - 1, 16)
        rest_s = min(_FIRST_S * 2.0**doublings, _MOST_S) if deaths > _FREE else 0.0
        self._rests[subject] = _Rest(deaths, now + rest_s)
        return deaths > _FREE

    def answered(self, subject: str) -> None:
        """The driver answered, be it with an error."""
        self._rests.pop(subject, None)
