"""Values beside `dataclasses`: whatever can be seen of a class and its values is the same."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from plugbay import values

Decorator = Callable[..., Callable[[type], type]]
T = TypeVar("T")
DECORATORS: list[Decorator] = [dataclasses.dataclass, values.dataclass]


class Makers:
    """One class each, made by the decorator that is given."""

    @staticmethod
    def nothing(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            pass

        return Made

    @staticmethod
    def one_field(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int

        return Made

    @staticmethod
    def defaults(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            """Documented."""

            a: int
            b: str = "b"
            c: list[int] = field(default_factory=list)
            d: int = field(default=4, kw_only=True)
            kind: ClassVar[str] = "made"

        return Made

    @staticmethod
    def only_by_name(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Made:
            b: int = 2
            a: int

        return Made

    @staticmethod
    def fields_apart(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int
            hidden: int = field(default=1, repr=False)
            ignored: int = field(default=2, compare=False)
            unhashed: list[int] = field(default_factory=list, hash=False)
            made: int = field(default=3, init=False)
            built: list[int] = field(default_factory=list, init=False, compare=False)

        return Made

    @staticmethod
    def checked(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int
            twice: int = field(init=False)

            def __post_init__(self) -> None:
                if self.a < 0:
                    raise ValueError("negative")
                object.__setattr__(self, "twice", 2 * self.a)

        return Made

    @staticmethod
    def methods_of_its_own(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int

            def __repr__(self) -> str:
                return "mine"

            def __eq__(self, other: object) -> bool:
                return isinstance(other, type(self))

        return Made

    @staticmethod
    def hash_of_its_own(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int
            b: int = 0

            def __hash__(self) -> int:
                return 7

        return Made

    @staticmethod
    def init_of_its_own(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int

            def __init__(self, *digits: int) -> None:
                object.__setattr__(self, "a", sum(digits))

        return Made

    @staticmethod
    def below_another(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Base:
            a: int
            b: int = 1

        @dataclass(frozen=True, slots=True)
        class Made(Base):
            b: int = 5
            c: int = 2

        return Made

    @staticmethod
    def below_the_standard_library(dataclass: Decorator) -> Any:
        @dataclasses.dataclass(frozen=True, slots=True)
        class Base:
            a: int

        @dataclass(frozen=True, slots=True)
        class Made(Base):
            c: int = 2

        return Made

    @staticmethod
    def above_the_standard_library(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Base:
            a: int

        @dataclasses.dataclass(frozen=True, slots=True)
        class Made(Base):
            c: int = 2

        return Made

    @staticmethod
    def plain_below(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Base:
            a: int
            b: int = 3

        class Made(Base):
            pass

        return Made

    @staticmethod
    def generic(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made(Generic[T]):
            a: T
            b: T

        return Made

    @staticmethod
    def not_frozen(dataclass: Decorator) -> Any:
        @dataclass(slots=True)
        class Made:
            a: int
            b: int = 0

        return Made

    @staticmethod
    def ordered(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True, order=True)
        class Made:
            a: int
            b: int = 0

        return Made

    @staticmethod
    def mutable_default(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: list[int] = []  # noqa: RUF012

        return Made

    @staticmethod
    def default_too_early(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Made:
            a: int = 1
            b: int  # type: ignore[misc]

        return Made

    @staticmethod
    def thawed(dataclass: Decorator) -> Any:
        @dataclass(frozen=True, slots=True)
        class Base:
            a: int

        class Thawed(Base):
            b: int = 0

        Made = dataclass(slots=True)(Thawed)

        return Made


CASES = [name for name in vars(Makers) if not name.startswith("_")]
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((-1,), {}),
    ((1, 2), {}),
    ((1, 2, [3]), {}),
    ((1, 2, 3, 4, 5, 6, 7), {}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 2}),
    ((1,), {"d": 9}),
    ((1,), {"nonsense": 1}),
]


def attempt(action: Callable[[], Any]) -> object:
    """What a call gives, or how it fails."""
    try:
        return action()
    except (TypeError, ValueError, AttributeError, FrozenInstanceError, pickle.PicklingError) as error:
        return type(error), str(error)


def is_refused(action: Callable[[], None]) -> bool:
    """The standard library has words of its own where a class has no such field."""
    return attempt(action) is not None


def seen(cls: Any) -> list[object]:
    """All that a program can see of a class and its values, or that there is no class."""
    if isinstance(cls, tuple):
        return [cls[0]]  # the words are those of the Python that runs
    known = cls.__init__ is not object.__init__ and [(each.name, each.default, each.init) for each in fields(cls)]
    return [known, attempt(lambda: cls.__match_args__), *(seen_of_call(cls, *call) for call in CALLS)]


def seen_of_call(cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> object:
    value: Any = attempt(lambda: cls(*args, **named))
    if isinstance(value, tuple):
        return value
    other = cls(*args, **named)
    return [
        repr(value),
        (value == other, value != other, value == object(), value == value.a if hasattr(value, "a") else None),
        attempt(lambda: hash(value)),
        attempt(lambda: value < other),
        attempt(lambda: repr(replace(value, a=8))),
        attempt(lambda: value == replace(value, a=8)),
        attempt(lambda: repr(replace(value, nonsense=8))),
        attempt(lambda: asdict(value)),
        repr(copy.copy(value)),
        repr(copy.deepcopy(value)),
        attempt(lambda: value.__reduce_ex__(4)[2]),
        hasattr(value, "__dict__"),
        is_refused(lambda: setattr(value, "a", 5)),
        is_refused(lambda: delattr(value, "a")),
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_value_is_what_the_standard_library_makes(case: str) -> None:
    standard, ours = (seen(attempt(lambda: getattr(Makers, case)(dataclass))) for dataclass in DECORATORS)  # noqa: B023
    assert ours == standard


@pytest.mark.parametrize("case", CASES)
def test_a_class_has_its_signature_before_its_first_value(case: str) -> None:
    standard, ours = (
        attempt(lambda: str(inspect.signature(getattr(Makers, case)(dataclass))))  # noqa: B023
        for dataclass in DECORATORS
    )
    assert ours == standard


@values.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


class Marked(Point):
    """Has a dictionary."""


def test_values_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_a_class_without_slots_below_has_attributes_of_its_own() -> None:
    marked: Any = Marked(1)
    marked.z = 3
    assert marked.z == 3
    del marked.z
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        marked.x = 3


@pytest.mark.parametrize("name", ["x", "nonsense"])
def test_a_value_does_not_change(name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=f"^cannot assign to field '{name}'$"):
        setattr(Point(1), name, 2)
    with pytest.raises(FrozenInstanceError, match=f"^cannot delete field '{name}'$"):
        delattr(Point(1), name)


def test_a_value_that_holds_itself_can_be_shown() -> None:
    listing: list[Any] = []
    listing.append(Point(1, listing))  # type: ignore[arg-type]
    assert repr(listing[0]) == "Point(x=1, y=[...])"


def test_values_match() -> None:
    match Point(3, 4):
        case Point(x, y=4):
            assert x == 3
        case _:
            pytest.fail("it matches")


def test_equal_values_are_found_in_sets() -> None:
    assert len({Point(1), Point(1, 0), Point(2)}) == 2


def test_a_definition_compiles_nothing() -> None:
    """Compiling is what takes the time: one ``exec`` for each class, when it is first used."""
    code = (
        "import builtins\n"
        "from plugbay.values import dataclass\n"
        "compiled, known = [], builtins.exec\n"
        "builtins.exec = lambda *args: compiled.append(args) or known(*args)\n"
        "class Plain:\n    __annotations__ = {'a': 'int', 'b': 'int'}\n    b = 3\n"
        "made = dataclass(frozen=True, slots=True)(Plain)\n"
        "print(len(compiled), made(1) == made(1, 3), repr(made(1)), hash(made(1)) == hash(made(1)), len(compiled))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "0 True Plain(a=1, b=3) True 1\n"
