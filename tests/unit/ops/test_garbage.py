from __future__ import annotations

import subprocess
import sys

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


def test_only_what_is_made_later_is_searched_for_garbage() -> None:
    # In a process of its own: what is frozen stays frozen.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
