"""What the choice of GPUs costs: requests of every size, on the golden machines and on random ones.

The time is CPU time, as a choice waits for nothing, and none is remembered from an earlier request.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

from bench.figures import Figure, Pace
from plugbay.allocation.partition.choice import best_group
from plugbay.plugins.nvidia.choosing.scores import pair_scores
from plugbay.plugins.nvidia.survey import GpuUuid, LinkMatrix, P2PLevel

GOLDEN: Final = Path(__file__).parents[1] / "tests/golden/gpu-topology"
RANDOM: Final = {Pace.FULL: 200, Pace.QUICK: 6}
TARGET_MS: Final = {16: 20.0, 8: 3.0}
LEVELS: Final = tuple(P2PLevel)
_DEPTH: Final = 4


def choices(pace: Pace) -> Iterator[Figure]:
    """The 99th percentile over all machines and sizes, for machines with 16 GPUs and with 8; and the slowest."""
    for count, target in TARGET_MS.items():
        taken = sorted(
            duration
            for machine in (*golden(count), *(random_machine(count, seed) for seed in range(RANDOM[pace])))
            for duration in durations_ms(machine)
        )
        yield Figure(f"best_effort_{count}_p99_ms", taken[len(taken) * 99 // 100], "ms", target)
        yield Figure(f"best_effort_{count}_max_ms", taken[-1], "ms", None)


def durations_ms(links: LinkMatrix) -> Iterator[float]:
    """One request of each size for all GPUs, and one for all but one that must have the last GPU."""
    count = len(links.uuids)
    for size in range(1, count + 1):
        for offered, required in ((count, ()), (count - 1, (count - 2,))):
            if size <= offered:
                began = time.process_time()
                best_group(pair_scores(links, links.uuids[:offered]), required, size)
                yield (time.process_time() - began) * 1000


def golden(count: int) -> Iterator[LinkMatrix]:
    for path in sorted(GOLDEN.glob(f"*-{count}gpu*.json")):
        read = json.loads(path.read_text())
        yield _links(read["nvml_topology_level"], read["nvlink_count"])


def random_machine(count: int, seed: int) -> LinkMatrix:
    """A machine whose PCIe is a random tree with random NVLinks, or, every second one, one without any order."""
    chance = random.Random(seed * 100 + count)
    branches = [[chance.randrange(2) for _ in range(_DEPTH)] for _ in range(count)]
    share = chance.choice([0.0, 0.1, 0.3, 1.0])
    levels: list[list[int | None]] = [[None] * count for _ in range(count)]
    nvlinks = [[0] * count for _ in range(count)]
    for one, other in combinations(range(count), 2):
        common = next((at for at in range(_DEPTH) if branches[one][at] != branches[other][at]), _DEPTH)
        level = chance.choice(LEVELS) if seed % 2 else LEVELS[-1 - common]
        levels[one][other] = levels[other][one] = level
        if chance.random() < share:
            nvlinks[one][other] = nvlinks[other][one] = chance.choice([1, 2, 4, 6, 12, 18])
    return _links(levels, nvlinks)


def _links(levels: list[list[int | None]], nvlinks: list[list[int]]) -> LinkMatrix:
    return LinkMatrix(
        tuple(GpuUuid(f"GPU-{index}") for index in range(len(levels))),
        tuple(tuple(None if level is None else P2PLevel(level) for level in row) for row in levels),
        tuple(map(tuple, nvlinks)),
    )
