"""How often is looked."""

from __future__ import annotations

from plugbay.sdk.release.sweep import jittered


def test_interval_varies_and_no_look_comes_late() -> None:
    waits = [jittered(30.0) for _ in range(200)]
    assert all(24.0 <= wait <= 30.0 for wait in waits)
    assert max(waits) - min(waits) > 1.0
