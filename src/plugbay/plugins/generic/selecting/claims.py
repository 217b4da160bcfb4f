"""The claims of entries on files: a file that two entries would give goes to the first, unless both share. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plugbay.plugins.generic.config.rules import Entry


class Claims:
    """Which entries would give which host paths; entries are their numbers in the config."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._is_shared = [entry.is_shared for entry in entries]
        self._claims: list[frozenset[str]] = [frozenset() for _ in entries]
        self._claimants: dict[str, tuple[int, ...]] = {}
        self._contested: set[str] = set()

    def renew(self, index: int, claims: frozenset[str]) -> set[int]:
        """Say what an entry claims now; the other entries that this concerns."""
        before = self._claims[index]
        self._claims[index] = claims
        concerned: set[int] = set()
        for path in before - claims:
            left = tuple(each for each in self._claimants[path] if each != index)
            concerned.update(left)
            self._set(path, left)
        for path in claims - before:
            others = self._claimants.get(path, ())
            concerned.update(others)
            self._set(path, tuple(sorted((*others, index))) if others else (index,))
        return concerned

    def rival(self, index: int, claims: Iterable[str]) -> int | None:
        """The entry that gives one of these paths instead of entry ``index``; None if there is none."""
        if not self._contested:
            return None
        for path in claims:
            if path in self._contested:
                for other in self._claimants[path]:
                    if other < index and not (self._is_shared[other] and self._is_shared[index]):
                        return other
        return None

    def lost(self, index: int) -> list[tuple[int, list[str]]]:
        """The entries that give what entry ``index`` claims too, each with the paths in question, sorted."""
        lost: dict[int, list[str]] = {}
        for path in sorted(self._contested & self._claims[index]):
            rival = self.rival(index, (path,))
            if rival is not None:
                lost.setdefault(rival, []).append(path)
        return sorted(lost.items())

    def _set(self, path: str, claimants: tuple[int, ...]) -> None:
        if claimants:
            self._claimants[path] = claimants
        else:
            del self._claimants[path]
        (self._contested.add if len(claimants) > 1 else self._contested.discard)(path)
