"""Uses by their key and by their units. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import DeviceId
from plugbay.sdk.release.uses import Use


class UseIndex:
    """The uses that are not released yet. A unit is part of one of them at most, beside any overtaken ones."""

    def __init__(self, uses: Iterable[Use] = ()) -> None:
        self._uses: dict[AssignmentKey, Use] = {}
        self._by_unit: dict[DeviceId, AssignmentKey] = {}
        for use in uses:
            self.put(use)

    def __iter__(self) -> Iterator[Use]:
        return iter(tuple(self._uses.values()))

    def __len__(self) -> int:
        return len(self._uses)

    def get(self, key: AssignmentKey) -> Use | None:
        return self._uses.get(key)

    def of_units(self, units: Iterable[DeviceId]) -> list[Use]:
        """The uses that have one of ``units``, each once; none that was overtaken."""
        keys = dict.fromkeys(self._by_unit[unit] for unit in units if unit in self._by_unit)
        return [self._uses[key] for key in keys]

    def put(self, use: Use) -> None:
        """Add ``use``, or what has become of it.

        Raises:
            ValueError: one of its units is another use's.
        """
        if not use.is_overtaken and any(self._by_unit.get(unit, use.key) != use.key for unit in use.units):
            raise ValueError(f"{use.assignment()} overlaps with another use")
        self.remove(use.key)
        self._uses[use.key] = use
        if not use.is_overtaken:
            self._by_unit.update(dict.fromkeys(use.units, use.key))

    def remove(self, key: AssignmentKey) -> None:
        """Remove the use, if it is there."""
        if (gone := self._uses.pop(key, None)) is not None and not gone.is_overtaken:
            for unit in gone.units:
                del self._by_unit[unit]
