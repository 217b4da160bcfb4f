"""What tests with real engines get."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.containerd import Containerd, containerd, why_not


@pytest.fixture(scope="session")
def engine() -> Iterator[Containerd]:
    """One containerd for all tests; each leaves it without pods."""
    if problem := why_not():
        pytest.skip(problem)
    with tempfile.TemporaryDirectory(prefix="pbe", dir="/tmp") as base, containerd(Path(base)) as daemon:
        yield daemon
