"""What tests with real engines get."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.containerd import Containerd, containerd, why_not


@pytest.fixture(scope="session")
def engine() -> Iterator[Containerd]:
    """One containerd for all tests; each leaves it without pods, and it leaves the machine as it was."""
    if problem := why_not():
        pytest.skip(problem)
    before = _machine()
    with tempfile.TemporaryDirectory(prefix="pbe", dir="/tmp") as base:
        with containerd(Path(base)) as daemon:
            yield daemon
            # Before whatever a failed test has left is killed, and goes with its namespaces.
            daemon.until_nothing_runs()
            assert daemon.leavings() == []
        assert base not in Path("/proc/self/mountinfo").read_text()
        assert [each for each in Path("/proc").glob("[0-9]*/cmdline") if base in _text(each)] == []
    assert _machine() == before


def _machine() -> dict[str, object]:
    """What an engine and its network plugins would change if they were not kept to themselves."""
    return {
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "bridge": Path("/sys/class/net/e2e0").exists(),
        "state": [Path(each).exists() for each in ("/run/containerd", "/var/lib/cni", "/var/lib/containerd")],
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""
