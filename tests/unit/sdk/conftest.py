"""What tests of the sdk get: time that costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.sdk.virtual_loop import VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    """The clock of the sdk is its event loop; in this one, time passes when there is nothing else to do."""
    made = VirtualLoop()
    yield made
    made.end()
