"""The GPUs in turn: each is named to the plugin before the driver is asked about it. In the worker process only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

import pynvml as nvml

LEFT_OUT: Final = "it hung or crashed each time when it was asked to; it is asked again after a while"
"""In place of the driver's answer about a GPU that is left out."""


def gpus_in_turn(
    left_out: Collection[tuple[int, int]], push: Callable[[tuple[object, ...]], None]
) -> Iterator[tuple[int, bool]]:
    """The indices of all GPUs, each with whether the driver may be asked about it.

    Args:
        left_out: the GPUs that it must not be asked about, each as its index and the number of GPUs.
        push: given ``("reading", index, count)`` before each of the others: if the driver dies, that is the GPU.
    """
    count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        may_be_asked = (index, count) not in left_out
        if may_be_asked:
            push(("reading", index, count))
        yield index, may_be_asked
