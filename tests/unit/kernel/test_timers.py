import threading
from pathlib import Path

import pytest

from plugbay.kernel.timers import timer_slack


def slack_ns(thread: int) -> int:
    return int(Path(f"/proc/{thread}/timerslack_ns").read_text())


def test_threads_started_inside_are_lazy_and_the_caller_is_exact_again() -> None:
    before = slack_ns(threading.get_native_id())
    go_on = threading.Event()
    with timer_slack(2.5):
        assert slack_ns(threading.get_native_id()) == 2_500_000_000
        child = threading.Thread(target=go_on.wait, args=(10,))
        child.start()
    try:
        assert slack_ns(threading.get_native_id()) == before
        assert child.native_id is not None
        assert slack_ns(child.native_id) == 2_500_000_000
    finally:
        go_on.set()
        child.join()


def test_caller_is_exact_again_after_a_failure() -> None:
    before = slack_ns(threading.get_native_id())
    with pytest.raises(ZeroDivisionError), timer_slack(1):
        _ = 1 / 0
    assert slack_ns(threading.get_native_id()) == before
