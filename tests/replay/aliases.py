"""Which of our devices is which of the recorded ones: pure."""

from __future__ import annotations

from collections.abc import Sequence


class Aliases:
    """Recorded identifiers to ours: which device is picked is chance with a kubelet, and what follows may depend on it.

    When another one is picked here, the two change their names in everything that is said from then on.
    """

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}
        self._met: set[str] = set()

    def ours(self, recorded: str) -> str:
        return self._ours.get(recorded, recorded)

    def recorded(self, ours: str) -> str:
        return next((key for key, value in self._ours.items() if value == ours), ours)

    def meet(self, recorded: Sequence[str], picked: Sequence[str]) -> None:
        """The ``recorded`` devices are those that were ``picked`` here, as far as they were not known before."""
        wanted = [each for each in recorded if each not in self._met and self.ours(each) not in picked]
        known = {self.ours(each) for each in (*recorded, *self._met)}
        spare = [each for each in picked if each not in known]
        for each, alias in zip(wanted, spare, strict=False):
            other = self.recorded(alias)
            self._ours[other], self._ours[each] = self.ours(each), alias
        self._met.update(recorded)
