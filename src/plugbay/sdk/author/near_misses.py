"""Definitions in an author's file that nothing uses: methods called almost as a hook, and classes behind others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from plugbay.sdk.author.plugin import DevicePlugin
from plugbay.sdk.author.resources import PluginSource

_HOOKS: Final = tuple(
    name for name, value in vars(DevicePlugin).items() if not name.startswith("_") and callable(value)
)


class NearHook(NamedTuple):
    """A method that is never called, and the hook that it is one edit away from."""

    method: Callable[..., Any]
    hook: str

    def __str__(self) -> str:
        name = getattr(self.method, "__name__", repr(self.method))
        return f"{name}() is never called; did you mean {self.hook}()?"


def near_hooks(cls: type[DevicePlugin]) -> Iterator[NearHook]:
    """The public methods of a plugin's class, and its bases below `DevicePlugin`, whose names are misspelt hooks."""
    for base in cls.__mro__[: cls.__mro__.index(DevicePlugin)]:
        for name, method in vars(base).items():
            if name.startswith("_") or name in _HOOKS or not callable(method):
                continue
            if (hook := next((each for each in _HOOKS if is_one_edit_away(name, each)), None)) is not None:
                yield NearHook(method, hook)


def hidden_bases(module: ModuleType) -> Iterator[tuple[type[DevicePlugin], type[DevicePlugin]]]:
    """The classes of a module that name a resource and are not served, each with the class derived from it."""
    values = list(vars(module).values())
    if any(isinstance(each, PluginSource) for each in values):
        return
    classes = [each for each in values if isinstance(each, type) and issubclass(each, DevicePlugin)]
    made = {type(each) for each in values if isinstance(each, DevicePlugin)}
    for base in [each for each in classes if each.__module__ == module.__name__ and "resource_name" in vars(each)]:
        derived = [each for each in classes if base in each.__mro__[1:]]
        if derived and base not in made:
            yield base, derived[0]


def is_one_edit_away(word: str, other: str) -> bool:
    """Whether one letter more, less, changed, or exchanged with the next makes ``other`` of ``word``."""
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    same = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    rest, wanted = word[same:], other[same:]
    return (
        rest[1:] == wanted[1:]
        or rest[1:] == wanted
        or rest == wanted[1:]
        or (rest[:2] == wanted[:2][::-1] and rest[2:] == wanted[2:])
    )
