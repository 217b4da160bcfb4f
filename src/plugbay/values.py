"""Values: the frozen dataclasses with slots that plugbay is made of, defined in a third of the time.

A node imports some three hundred of them. `dataclasses` writes six functions for each and compiles them one by one:
with Python 3.11 that was 40 % of a node's start and of a plugin's, and 2 MB. Here the methods that all values share are
compiled once, and ``__init__`` when the first value is made, which most classes never see in one process.

May live here: what makes a class of values. May not: values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """`dataclasses.dataclass`, which is quick for ``frozen=True, slots=True`` and knows no ``InitVar`` there."""
        if options.get("frozen") and options.get("slots") and options.keys() <= _QUICK:
            return lambda cls: _value(cls, kw_only=options.get("kw_only", False))
        return dataclasses.dataclass(cls, **options)


_QUICK: Final = frozenset({"frozen", "slots", "kw_only"})


def _value(cls: type, *, kw_only: bool) -> type:
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # `dataclasses` would look for the signature to put it here
    params: list[Any] = [base.__dict__.get("__dataclass_params__") for base in cls.__mro__]
    is_below_frozen = any(each.frozen for each in params if each is not None)
    made: Any = dataclasses.dataclass(
        init=False,
        repr=False,
        eq=False,
        frozen=is_below_frozen,  # which `dataclasses` asks for; few classes pay for it
        slots=True,
        kw_only=kw_only,
    )(cls)
    made.__dataclass_params__.frozen = True  # for classes below this one
    known = fields(made)
    _refuse_defaults_before_none(known)
    methods = {
        "__init__": _late_init(made),
        "__signature__": _Signature(),
        "__repr__": _repr,
        "__eq__": _eq([each.name for each in known if each.compare]),
        "__hash__": _hash([each.name for each in known if (each.compare if each.hash is None else each.hash)]),
        "__setattr__": _refusing(made, "assign to", "__setattr__"),
        "__delattr__": _refusing(made, "delete", "__delattr__"),
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }
    own = made.__dict__
    for name, method in methods.items():
        if own.get(name) is None:  # a class with an __eq__ of its own has None for a __hash__
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _refuse_defaults_before_none(known: Sequence[Field[object]]) -> None:
    has_default = False
    for each in known:
        if each.init and not each.kw_only:
            is_optional = each.default is not MISSING or each.default_factory is not MISSING
            if has_default and not is_optional:
                raise TypeError(f"non-default argument {each.name!r} follows default argument")
            has_default |= is_optional


def _late_init(made: Any) -> Callable[..., None]:
    """An ``__init__`` that compiles the true one, puts it in its own place, and calls it."""

    def __init__(self: object, *args: object, **named: object) -> None:
        compiled()(self, *args, **named)

    def compiled() -> Callable[..., None]:
        if made.__init__ is __init__:
            made.__init__ = _compiled_init(made)
        return made.__init__  # type: ignore[no-any-return]

    __init__.compiled = compiled  # type: ignore[attr-defined]
    return __init__


def _compiled_init(made: Any) -> Callable[..., None]:
    """Fields are set in their order, as `dataclasses` does; ``__post_init__`` has the last word."""
    names: dict[str, object] = {"_set_": object.__setattr__, "_absent_": _FACTORY}
    positional, named, lines = ["self"], ["*"], []
    for field in fields(made):
        parameter = value = field.name
        if field.default_factory is not MISSING:
            parameter = f"{field.name}=_absent_"
            value = f"_make_{field.name}_()"
            names[f"_make_{field.name}_"] = field.default_factory
            if field.init:
                value += f" if {field.name} is _absent_ else {field.name}"
        elif field.default is not MISSING:
            default = f"_default_{field.name}_"
            parameter = f"{field.name}={default}"
            names[default] = field.default
            value = field.name if field.init else default
        elif not field.init:
            continue  # __post_init__ sets it
        if field.init:
            (named if field.kw_only else positional).append(parameter)
        lines.append(f"    _set_(self, {field.name!r}, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    parameters = ", ".join([*positional, *(named if len(named) > 1 else ())])
    exec("\n".join([f"def __init__({parameters}):", *lines, "    return None"]), names)
    init: Any = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in fields(made) if each.init} | {"return": None}
    return init  # type: ignore[no-any-return]


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


class _Signature:
    """A class's ``__signature__``, which `inspect` asks for: that of its true ``__init__``."""

    def __get__(self, instance: object, owner: Any) -> object:
        import inspect

        init = owner.__init__
        signature = inspect.signature(getattr(init, "compiled", lambda: init)())
        return signature.replace(parameters=[*signature.parameters.values()][1:])


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(names: Sequence[str]) -> Callable[[object, object], bool]:
    values = _values_of(names)

    def __eq__(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(names: Sequence[str]) -> Callable[[object], int]:
    values = _values_of(names)

    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)  # attrgetter gives tuples from two names on


def _refusing(made: type, verb: str, method: str) -> Callable[..., None]:
    """Only an attribute that a class without slots below this one has added may change."""
    names = frozenset(each.name for each in fields(made))

    def refuse(self: object, name: str, *value: object) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot {verb} field {name!r}")
        getattr(super(made, self), method)(name, *value)

    return refuse


def _getstate(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: Sequence[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
