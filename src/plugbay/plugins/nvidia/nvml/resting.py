"""Subjects of which the driver dies, hanging or crashing, when it is asked: they are left alone for a while. Pure.

They are GPUs that are read, devices that are probed, and things that the plugin can do without. Each such death costs a
worker process, and the next one starts later and later: one device would cost the node all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from plugbay.plugins.nvidia.nvml.troubles import DriverTrouble
from plugbay.values import dataclass

_FREE: Final = 1
"""The deaths that count for nothing: a worker may be killed by chance."""
_FIRST_S: Final = 2.0
_MOST_S: Final = 600.0
DEADLY: Final = frozenset({DriverTrouble.HUNG.value, DriverTrouble.CRASHED.value})
"""The troubles in which a worker process ends."""

Subject = TypeVar("Subject", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Rest:
    deaths: int
    until: float


class RestingSubjects(Generic[Subject]):
    """The subjects that the driver is not to be asked for now.

    Args:
        first_s: the first rest; each further one is twice as long.
    """

    def __init__(self, first_s: float = _FIRST_S) -> None:
        self._first_s = first_s
        self._rests: dict[Subject, _Rest] = {}

    @property
    def known(self) -> tuple[Subject, ...]:
        """The subjects of which the driver has died since they were answered last."""
        return tuple(self._rests)

    def is_resting(self, subject: Subject, now: float) -> bool:
        """Whether the subject is to be left alone."""
        rest = self._rests.get(subject)
        return rest is not None and now < rest.until

    def is_to_blame(self, subject: Subject) -> bool:
        """Whether the driver died of the subject, and not by chance, and has not answered since."""
        return subject in self._rests and self._rests[subject].deaths > _FREE

    def died(self, subject: Subject, reason: str, now: float) -> bool:
        """The driver failed at a question, for a `DriverTrouble`; returns whether the subject is to blame."""
        if reason not in DEADLY:
            return False
        deaths = self._rests[subject].deaths + 1 if subject in self._rests else 1
        doublings = min(deaths - _FREE - 1, 16)
        rest_s = min(self._first_s * 2.0**doublings, _MOST_S) if deaths > _FREE else 0.0
        self._rests[subject] = _Rest(deaths, now + rest_s)
        return self.is_to_blame(subject)

    def answered(self, subject: Subject) -> None:
        """The driver answered, be it with an error."""
        self._rests.pop(subject, None)
