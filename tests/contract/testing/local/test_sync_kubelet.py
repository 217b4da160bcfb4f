"""The kubelet of a test that is not async: a thread of its own, of which nothing is left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from plugbay import Device, DevicePlugin, plugin
from plugbay.errors import UsageError
from plugbay.testing import AdmissionError, ExpectationFailed, Kubelet
from plugbay.testing.local.loop_thread import LoopThread

CARD = "example.com/card"


@plugin(CARD)
def cards() -> list[Device]:
    return [Device(f"card{number}", env={"CARD": str(number)}) for number in range(2)]


def test_it_does_what_the_async_kubelet_does() -> None:
    with Kubelet() as kubelet:
        served = kubelet.plugin(cards)
        pod = kubelet.admit({CARD: 1})
        assert pod["app"].env == kubelet.start(pod)["app"].env == {"CARD": "0"}
        assert kubelet.capacity == kubelet.allocatable == {CARD: 2}
        kubelet.restart()
        kubelet.restart(crash=True)
        assert [each.name for each in kubelet.pod_resources] == [pod.name]
        with pytest.raises(AdmissionError, match="Requested: 2, Available: 1"):
            kubelet.admit({CARD: 2})
        kubelet.end(pod)
        kubelet.reload_plugin(served)
        kubelet.wait_for(lambda: len(kubelet.calls("Register")) == 4)
        kubelet.end_plugin(served)
        kubelet.wait_for(health={CARD: {"card0": "Unknown"}})
        kubelet.stop_kubelet()
        kubelet.start_kubelet()
        assert kubelet.capacity == {CARD: 0}


def test_faults_are_switched_from_the_test() -> None:
    with Kubelet(within_s=30) as kubelet:
        served = kubelet.plugin(cards)
        dropping = kubelet.faults.drop(method="ListAndWatch", times=1)
        kubelet.reload_plugin(served)
        dropping.until_used(timeout_s=30)
        assert dropping.used == 1
        kubelet.faults.reset(method="ListAndWatch")
        kubelet.wait_for(lambda: len(kubelet.calls("Register")) == 3)
        kubelet.wait_for(allocatable={CARD: 2})
        hanging = kubelet.faults.hang(method="Allocate")
        hanging.off()
        assert {record.name for record in kubelet.records} >= {"Register", "ListAndWatch"}
        kubelet.faults.refuse("full")
        kubelet.faults.strip_newer((1, 26))
        kubelet.faults.delay(0.01, method="Allocate")
        kubelet.faults.all_off()
        kubelet.admit({CARD: 1})


def test_failure_shows_the_line_of_the_test_and_not_ours() -> None:
    with Kubelet(within_s=0.05) as kubelet:
        with pytest.raises(ExpectationFailed) as caught:
            kubelet.wait_for(allocatable={CARD: 1})
        shown = [entry for entry in caught.traceback if not entry.ishidden(caught)]
        assert [str(entry.path) for entry in shown] == [__file__]


def test_condition_may_look_but_not_act() -> None:
    with Kubelet() as kubelet:
        kubelet.plugin(cards)
        with pytest.raises(UsageError, match="a condition may look at the kubelet, but not make it do something"):
            kubelet.wait_for(lambda: bool(kubelet.admit({CARD: 1})))


def test_closed_kubelet_leaves_nothing_and_says_so() -> None:
    before = set(threading.enumerate())
    kubelet = Kubelet()
    root = kubelet.paths.root
    kubelet.plugin(cards)
    kubelet.close()
    kubelet.close()
    assert not root.exists()
    assert set(threading.enumerate()) == before
    with pytest.raises(UsageError, match="this kubelet is closed"):
        kubelet.admit({CARD: 1})


def test_options_are_checked_before_there_is_a_thread() -> None:
    before = threading.active_count()
    with pytest.raises(UsageError, match="has no option 'gates'"):
        Kubelet(gates="")  # type: ignore[call-arg]  # that is the point
    with pytest.raises(UsageError, match="unrecognized feature gate"):
        Kubelet(feature_gates="Nonsense=true")
    assert threading.active_count() == before


def test_several_plugins_are_served_as_one_process_does() -> None:
    class Other(DevicePlugin):
        resource_name = "example.com/other"

        def discover(self) -> Sequence[Device]:
            return [Device("o1")]

    with Kubelet() as kubelet:
        assert kubelet.plugin(cards, Other).resources == (CARD, "example.com/other")
        pod = kubelet.admit({"one": {CARD: 1, "example.com/other": 1}})
        assert pod.devices["one"] == {CARD: ("card0",), "example.com/other": ("o1",)}


def test_unittest_has_it() -> None:
    class CardTest(unittest.TestCase):
        def setUp(self) -> None:
            self.kubelet = self.enterContext(Kubelet())

        def test_card(self) -> None:
            self.kubelet.plugin(cards)
            assert self.kubelet.admit({CARD: 1})["app"].env == {"CARD": "0"}

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(CardTest).run(result)
    assert result.testsRun == 1
    assert result.wasSuccessful(), result.errors


REPL = f"""
import sys
from plugbay import Device, plugin
from plugbay.testing import Kubelet
cards = plugin("{CARD}")(lambda: [Device("card0")])
kubelet = Kubelet()
print(kubelet.paths.root)
_ = kubelet.plugin(cards)
program = [sys.executable, "-c", "import time; time.sleep(600)", "{{root}}"]
print(kubelet.plugin(program, wait=False).pid)
"""


def test_repl_that_forgets_it_leaves_nothing() -> None:
    command = [sys.executable, "-i", "-q", "-c", ""]
    done = subprocess.run(command, input=REPL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert set(done.stderr.split()) <= {">>>"}, done.stderr
    root, pid = done.stdout.split()
    assert subprocess.run(["test", "-e", root]).returncode == 1, root
    assert subprocess.run(["test", "-e", f"/proc/{pid}"]).returncode == 1


INTERRUPTED = """
import signal, threading
from plugbay.testing import Kubelet
with Kubelet() as kubelet:
    print(kubelet.paths.root, flush=True)
    kubelet.wait_for(capacity={"example.com/card": 1}, within_s=60)
"""


def test_interrupt_ends_a_wait_and_closes() -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as held:
        assert held.stdout is not None
        root = held.stdout.readline().decode().strip()
        held.send_signal(signal.SIGINT)
        _, errors = held.communicate(timeout=60)
        assert b"KeyboardInterrupt" in errors
        assert subprocess.run(["test", "-e", root]).returncode == 1, root


def test_one_that_opens_while_the_test_is_interrupted_is_closed() -> None:
    interrupted = threading.Event()
    events: list[str] = []

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert await asyncio.to_thread(interrupted.wait, 10)
        events.append("opened")
        yield
        events.append("closed")

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            LoopThread(slow, name="slow to open")
    finally:
        signal.signal(signal.SIGINT, before)
    assert events == ["opened", "closed"]
