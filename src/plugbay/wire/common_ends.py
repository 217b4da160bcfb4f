"""The ends that two byte strings have in common, found at the speed of `memcmp`."""

from __future__ import annotations


def common_prefix(one: bytes, other: bytes) -> int:
    """The number of bytes with which both begin."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:  # they agree up to `low`, and not up to `high`
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(one: bytes, other: bytes, start: int) -> int:
    """The number of bytes with which both end, none of them before ``start``."""
    low, high = 0, min(len(one), len(other)) - start
    first, second = len(one), len(other)
    if one[first - high :] == other[second - high :]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[first - middle : first - low] == other[second - middle : second - low]:
            low = middle
        else:
            high = middle
    return low
