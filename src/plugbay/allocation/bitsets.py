"""Sets of ranks as ints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def from_flags(flags: Iterable[bool]) -> int:
    """The set of positions at which ``flags`` is true."""
    digits = "".join("1" if flag else "0" for flag in flags)
    return int(digits[::-1], 2) if digits else 0


def from_ranks(ranks: Iterable[int]) -> int:
    bits = 0
    for rank in ranks:
        bits |= 1 << rank
    return bits


def members(bits: int) -> Iterator[int]:
    """The ranks of the set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def select(bits: int, items: Sequence[_Item]) -> list[_Item]:
    """The items at the ranks of the set, ascending. For large sets cheaper than `members`: one pass over the digits."""
    return [item for item, digit in zip(items, reversed(bin(bits)[2:]), strict=False) if digit == "1"]


def take_lowest(bits: int, count: int) -> int:
    """The ``count`` lowest members, or all of them if there are fewer."""
    taken = 0
    while count > 0 and bits:
        lowest = bits & -bits
        taken |= lowest
        bits ^= lowest
        count -= 1
    return taken
