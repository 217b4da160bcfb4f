from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from plugbay.ops.garbage import collecting_later

PROGRAM = """
import gc, weakref
from plugbay.ops.garbage import nothing_to_collect

class Knot:
    def __init__(self):
        self.me = self

with nothing_to_collect():
    assert not gc.isenabled()
    kept = [Knot() for _ in range(10_000)]
assert gc.isenabled()
assert gc.get_freeze_count() > 10_000
assert not any(each is kept for each in gc.get_objects())
later = weakref.ref(Knot())
gc.collect()
assert later() is None

gc.disable()
with nothing_to_collect():
    pass
assert not gc.isenabled()
"""


class Knot:
    """It is garbage as soon as nothing else holds it, and only a search finds that."""

    def __init__(self) -> None:
        self.me = self


def test_only_what_is_made_later_is_searched_for_garbage() -> None:
    # In a process of its own: what is frozen stays frozen.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


def test_garbage_that_is_made_meanwhile_is_found_later() -> None:
    found: list[int] = []
    with collecting_later():
        assert not gc.isenabled()
        for _ in range(10 * gc.get_threshold()[0]):
            knot = Knot()
            weakref.finalize(knot, found.append, 1)
        assert not found
    assert gc.isenabled()
    knots = [Knot() for _ in range(gc.get_threshold()[0])]
    assert found
    assert knots
