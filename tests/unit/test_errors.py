"""The exception tree: as drawn, whole, and fit to travel between processes."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_type_hints

import pytest

import plugbay
from plugbay import errors
from plugbay.errors import InvalidManifest, PlugbayError, RpcCode, quote

BRANCH: Final = re.compile(r" {4}(?P<before>[│ ]*)[├└]── (?P<name>\w+)")
INDENT: Final = len("│   ")
SAMPLES: Final = {
    str: "gopher",
    int: 404,
    RpcCode: RpcCode.NOT_FOUND,
    int | None: None,
    Sequence[str]: ("main", "side"),
    Mapping[str, str]: {"crun": "not found"},
    Sequence[InvalidManifest]: (InvalidManifest("is twice", field="spec", line=3, source="pod.yaml"),),
}


def drawn() -> dict[str, str]:
    """Child to parent, as the docstring draws them."""
    path = [PlugbayError.__name__]
    parents: dict[str, str] = {}
    for line in inspect.cleandoc(errors.__doc__ or "").splitlines():
        if match := BRANCH.match(line):
            depth = 1 + len(match["before"]) // INDENT
            path[depth:] = [match["name"]]
            parents[match["name"]] = path[depth - 1]
    return parents


def derived(root: type[PlugbayError]) -> dict[str, str]:
    """Child to parent, as the classes are; a private class in between does not count."""
    parents: dict[str, str] = {}
    for cls in subclasses(root):
        public = next(base for base in cls.__mro__[1:] if not base.__name__.startswith("_"))
        if not cls.__name__.startswith("_"):
            parents[cls.__name__] = public.__name__
    return parents


def subclasses(root: type[PlugbayError]) -> list[type[PlugbayError]]:
    """Every class below ``root`` that plugbay itself defines."""
    own = [cls for cls in root.__subclasses__() if cls.__module__.partition(".")[0] == "plugbay"]
    return [*own, *(below for cls in own for below in subclasses(cls))]


def sample(cls: type[PlugbayError]) -> PlugbayError:
    """An error with a value for every parameter."""
    if cls.__init__ is Exception.__init__:
        return cls("the gopher is gone")
    hints: dict[str, Any] = get_type_hints(cls.__init__)
    positional, named = [], {}
    for name, parameter in inspect.signature(cls).parameters.items():
        value = SAMPLES[hints[name]]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return cls(*positional, **named)


CONCRETE: Final = [PlugbayError, *(cls for cls in subclasses(PlugbayError) if not cls.__name__.startswith("_"))]


def test_drawn_tree_is_the_real_one() -> None:
    assert drawn() == derived(PlugbayError)


def test_every_drawn_error_can_be_imported_from_the_package() -> None:
    assert set(errors.__all__) == {PlugbayError.__name__, *drawn(), quote.__name__, RpcCode.__name__}
    assert all(hasattr(errors, name) for name in errors.__all__)


def test_errors_are_defined_with_who_must_act_and_nowhere_else() -> None:
    for module in pkgutil.walk_packages(plugbay.__path__, "plugbay."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for cls in subclasses(PlugbayError):
        party = cls.__mro__[cls.__mro__.index(PlugbayError) - 1]
        who = f"{errors.__name__}.{party.__name__.removesuffix('Error').lower()}"
        assert cls.__module__ == who or cls.__module__.startswith(f"{who}_")


@pytest.mark.parametrize("cls", CONCRETE, ids=lambda cls: cls.__name__)
def test_error_survives_pickling(cls: type[PlugbayError]) -> None:
    error = sample(cls)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert {name: str(value) for name, value in vars(copy).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


@pytest.mark.parametrize("cls", CONCRETE, ids=lambda cls: cls.__name__)
def test_error_says_something(cls: type[PlugbayError]) -> None:
    text = str(sample(cls))
    assert text.strip()
    assert not text.startswith("("), "the arguments as a tuple are no sentence"
