"""All animals of the zoo, by the name that the command line knows them by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.contract.testing.zoo import containers, edits, hooks, lists, lives, preferences, registrations, restarts
from tests.contract.testing.zoo.animal import Animal

_HOUSES: Final = (registrations, lists, containers, edits, preferences, hooks, restarts, lives)


def _animals() -> Iterator[tuple[str, type[Animal]]]:
    yield "healthy", Animal
    for house in _HOUSES:
        for name, animal in vars(house).items():
            if not isinstance(animal, type) or not issubclass(animal, Animal):
                continue
            if animal.caught_by and animal.__module__ == house.__name__:
                yield re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower(), animal


ANIMALS: Final[Mapping[str, type[Animal]]] = dict(_animals())
