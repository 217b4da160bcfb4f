"""Waits for processes that are just ending, all of them together: a test that left a hundred is told at once."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable


def still_running(pids: Iterable[int], *, within_s: float) -> set[int]:
    """Those of the processes that have not ended after ``within_s`` seconds. Exit statuses of children are not read."""
    waited: dict[int, int] = {}
    for pid in set(pids):
        try:
            waited[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            continue
    poll, deadline = select.poll(), time.monotonic() + within_s
    for pidfd in waited:
        poll.register(pidfd, select.POLLIN)
    try:
        left = dict(waited)
        while left and (rest_s := deadline - time.monotonic()) > 0:
            for pidfd, _ in poll.poll(rest_s * 1000):
                poll.unregister(pidfd)
                del left[pidfd]
        return set(left.values())
    finally:
        for pidfd in waited:
            os.close(pidfd)
