"""Groups that can be part of a best partition: an upper bound rules out the others.

Every device gets a price. A group's *surplus* is the sum of its scores less the prices of its devices, so a partition
is worth all prices plus the surpluses of its groups, and never more than all prices plus the largest surpluses there
are. A group with which even that stays below a partition that is known is in no best partition. Any prices will do;
better ones rule out more groups. They are found by subgradient steps: devices in groups with the largest surplus become
dearer, those in none become cheaper (Lagrangian relaxation with Polyak's step length).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.allocation.partition.exchange import Partition
from plugbay.allocation.partition.sums import Groups
from plugbay.values import dataclass

_FEW: Final = 40
"""With so few groups the search is faster than another step."""
_IDLE: Final = 0.9
_PATIENCE: Final = 2
_SHORTER: Final = 0.7
_SHORTEST: Final = 0.25
"""After two steps that each leave more than 0.9 of the distance between bound and known partition, steps get shorter;
when they are a quarter as long, the bound is about as good as it gets."""
_MOST_WORK: Final = 60_000
_STEP_WORK: Final = 200
"""The work after which the search has to do with what is left: a step is as much work as 200 groups that it prices."""
_LEVEL: Final = 1e-9
"""Every device is wanted as often as it is there, as far as floating point tells."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a partition's groups: ``full`` groups of ``size``, and one of ``rest`` unless that is 0."""

    count: int
    size: int

    @property
    def full(self) -> int:
        return self.count // self.size

    @property
    def rest(self) -> int:
        return self.count % self.size


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The groups that are left, and the bound that left them.

    Attributes:
        prices: by place, whole numbers.
        full: groups of full size.
        rest: smaller groups.
        full_surplus: no group of ``full`` has a larger one.
        rest_surplus: no group of ``rest`` has a larger one; 0 if there is no smaller group.
    """

    prices: tuple[int, ...]
    full: Groups
    rest: Groups
    full_surplus: int
    rest_surplus: int


def candidates(full: Groups, rest: Groups, shape: Shape, known: Partition) -> Shortlist:
    """The groups of all partitions that are worth at least as much as ``known``.

    Args:
        full, rest: the groups of full size and the smaller ones that a partition may have.
    """
    prices = _first_prices(shape, known)
    best, least_gap, length, work, idle = prices, None, 1.0, 0, 0
    while True:
        priced = _Priced.of(shape, prices, full, rest)
        gap = priced.bound - known.total
        work += _STEP_WORK + len(full.bits) + len(rest.bits)
        full, rest = priced.within(gap)
        idle = 0 if least_gap is None or gap < least_gap * _IDLE else idle + 1
        if least_gap is None or gap < least_gap:
            best, least_gap = prices, gap
        if idle == _PATIENCE:
            length, idle = length * _SHORTER, 0
        if gap <= 0 or len(full.bits) + len(rest.bits) <= _FEW or work > _MOST_WORK or length < _SHORTEST:
            break
        prices = priced.step(gap * length)
    priced = _Priced.of(shape, best, full, rest)
    return Shortlist(tuple(best), full, rest, max(priced.full), max(priced.rest, default=0))


def _first_prices(shape: Shape, known: Partition) -> list[int]:
    """Half of a device's ties, so that the groups of ``known`` have no surplus; in its smaller group, half of what a
    device's ties would be in a group of full size."""
    larger = (shape.size - 1) / max(1, shape.rest - 1)
    average = (shape.size - 1) / (shape.count - 1)
    return [
        int(max(tie * larger, links * average)) // 2 if group == shape.full else tie // 2
        for tie, links, group in zip(known.ties, known.links, known.group_of, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Priced:
    """The surplus of every group that is left.

    Attributes:
        full: the surplus of each of ``full_groups``.
        rest: likewise of each of ``rest_groups``.
    """

    shape: Shape
    prices: list[int]
    full_groups: Groups
    rest_groups: Groups
    full: list[int]
    rest: list[int]

    @classmethod
    def of(cls, shape: Shape, prices: list[int], full: Groups, rest: Groups) -> _Priced:
        low, high = price_tables(prices)
        surpluses = [
            [each - low[group & 255] - high[group >> 8] for group, each in zip(groups.bits, groups.sums, strict=True)]
            for groups in (full, rest)
        ]
        return cls(shape, prices, full, rest, *surpluses)

    @property
    def bound(self) -> int:
        """No partition into these groups is worth more."""
        return sum(self.prices) + self.shape.full * max(self.full) + max(self.rest, default=0)

    def within(self, gap: int) -> tuple[Groups, Groups]:
        """The groups that can be part of a partition that is worth at most ``gap`` less than the bound."""
        full, rest = max(self.full) - gap, max(self.rest, default=0) - gap
        return (
            self.full_groups.only([surplus >= full for surplus in self.full]),
            self.rest_groups.only([surplus >= rest for surplus in self.rest]),
        )

    def step(self, gap: float) -> list[int]:
        """Prices that are better as a rule, though not always."""
        margin = int(gap) // (4 * (self.shape.full + 1))
        wanted = [0.0] * self.shape.count  # how often each device is in the groups with the largest surplus
        for groups, surpluses, weight in (
            (self.full_groups, self.full, self.shape.full),
            (self.rest_groups, self.rest, 1),
        ):
            if surpluses:
                least = max(surpluses) - margin
                top = [group for group, surplus in zip(groups.bits, surpluses, strict=True) if surplus >= least]
                counts = _counts(top, self.shape.count)
                wanted = [each + weight * times / len(top) for each, times in zip(wanted, counts, strict=True)]
        length = sum((1 - each) ** 2 for each in wanted)
        if length < _LEVEL:
            return self.prices
        return [round(price - (1 - each) * gap / length) for price, each in zip(self.prices, wanted, strict=True)]


def _counts(groups: Sequence[int], count: int) -> list[int]:
    """The number of the groups that hold each device, by place. Eight devices are counted in one number."""
    high, low = sum([_LANES[group >> 8] for group in groups]), sum([_LANES[group & 255] for group in groups])
    lanes = [(part >> 16 * bit) & 0xFFFF for part in (low, high) for bit in range(8)]
    return lanes[count - 1 :: -1]


_LANES: Final = tuple(sum(1 << 16 * bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
"""The bits of a byte, 16 bits apart, so that fewer than 65,536 bytes can be added up."""


def price_tables(prices: Sequence[int]) -> tuple[list[int], list[int]]:
    """The price of every group of the last eight devices, and of every group of those before."""
    tables = []
    backwards = prices[::-1]
    for part in (backwards[:8], backwards[8:]):
        table = [0]
        for price in part:
            table += [each + price for each in table]
        tables.append(table)
    return tables[0], tables[1]
