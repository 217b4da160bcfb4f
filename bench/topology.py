"""What alignment costs: the merge of many hints, admission under a policy beside admission without one; and how long
a device is out of use once its pod has ended."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import combinations
from typing import Final

from bench.admission import p50, peer
from bench.figures import Figure, Pace
from bench.releasing import releases
from plugbay.topology.hints import Hint
from plugbay.topology.masks import mask_of, narrowness
from plugbay.topology.merge import merge

NODES: Final = 8
SMALLEST: Final = {
    "agreeing": (1, 1, 1, 1, 1, 1),
    "one-larger": (1, 1, 1, 1, 1, 2),
    "all-sizes": (1, 2, 3, 4, 5, 6),
    "large": (4, 4, 4, 4, 4, 5),
}
"""For six resources on all nodes, how many nodes each needs at least: only the first is quickly found to agree."""
REPETITIONS: Final = {Pace.FULL: 50, Pace.QUICK: 3}
DEVICES: Final = 1_000
ROUNDS: Final = {Pace.FULL: 10, Pace.QUICK: 1}
ADMISSIONS: Final = 50
"""A round, of each policy in turn, so that what else the machine does troubles both."""


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    yield Figure("merge_ms_8x6", max(merge_ms(sizes, REPETITIONS[pace]) for sizes in SMALLEST.values()), "ms", 20)
    taken: dict[str, list[float]] = {"none": [], "restricted": []}
    for _ in range(ROUNDS[pace]):
        for policy, values in taken.items():
            values += await admissions(policy)
    for policy, values in taken.items():
        yield Figure(f"admission_two_resources_p50_ms_{policy}", p50(values), "ms", None)
    yield Figure("admission_restricted_p50_ratio_to_none", p50(taken["restricted"]) / p50(taken["none"]), "ratio", 1.6)
    async for figure in releases(pace):
        yield figure


def merge_ms(smallest: Iterable[int], repetitions: int) -> float:
    """The median; of CPU time, because it waits for nothing."""
    lists = [hints(range(NODES), size) for size in smallest]
    taken = []
    for _ in range(repetitions):
        began = time.process_time()
        merge(lists, default=mask_of(range(NODES)), fitness=narrowness)
        taken.append((time.process_time() - began) * 1000)
    return p50(taken)


def hints(nodes: Sequence[int], smallest: int) -> list[Hint]:
    """All sets of at least so many nodes."""
    return [
        Hint(mask_of(subset), size == smallest)
        for size in range(smallest, len(nodes) + 1)
        for subset in combinations(nodes, size)
    ]


async def admissions(policy: str) -> list[float]:
    async with AsyncExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="pb"))
        manager = await stack.enter_async_context(peer("topology", policy, root, DEVICES, ADMISSIONS))
        await manager.hear("serving")
        await stack.enter_async_context(peer("plugin", "pair", DEVICES, root))
        taken: list[float] = await manager.hear("admission")
        return taken
