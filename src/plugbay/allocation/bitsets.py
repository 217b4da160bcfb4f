"""Sets of ranks as ints, a bit per rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, TypeVar

_Item = TypeVar("_Item")
_FLAGS: Final = bytes.maketrans(b"01", b"\0\1")
_ONE: Final = ord("1")
_FEW: Final = 32
"""The number of members up to which taking them one by one is faster than looking at all digits."""


def from_flags(flags: Iterable[bool]) -> int:
    """The set of positions at which ``flags`` is true."""
    digits = "".join("1" if flag else "0" for flag in flags)
    return int(digits[::-1], 2) if digits else 0


def from_ranks(ranks: Iterable[int]) -> int:
    """The set of ``ranks``; 10,000 of them take a millisecond."""
    ranks = list(ranks)
    if len(ranks) > _FEW:
        digits = bytearray(b"0") * (max(ranks) + 1)
        for rank in ranks:
            digits[~rank] = _ONE
        return int(digits, 2)
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
    """The items at the ranks of the set, ascending. All of 10,000 take 0.1 ms, one of them 1 µs."""
    if bits.bit_count() <= _FEW:
        return [items[rank] for rank in members(bits)]
    return list(compress(items, f"{bits:b}".encode().translate(_FLAGS)[::-1]))


def take_lowest(bits: int, count: int) -> int:
    """The ``count`` lowest members, or all of them if there are fewer."""
    taken = 0
    while count > 0 and bits:
        lowest = bits & -bits
        taken |= lowest
        bits ^= lowest
        count -= 1
    return taken
