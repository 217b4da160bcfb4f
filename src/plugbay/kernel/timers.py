"""How exact the timers of a thread are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def timer_slack(slack_s: float) -> Iterator[None]:
    """Let the timers of this thread, and of threads started in the block, go off up to ``slack_s`` late.

    Threads keep the slack they were started with; this one gets its exact timers back. What is waited for besides the
    time still wakes a thread at once. Where the kernel does not let us, nothing changes.
    """
    path = f"/proc/{threading.get_native_id()}/timerslack_ns"
    try:
        _write(path, round(slack_s * 1e9))
    except OSError as error:
        logger.debug("timers stay exact: %s", error)
        yield
        return
    try:
        yield
    finally:
        _write(path, 0)  # back to the thread's default


def _write(path: str, slack_ns: int) -> None:
    with open(path, "w") as file:
        file.write(str(slack_ns))
