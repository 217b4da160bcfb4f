"""What tests with real engines get."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

from plugbay.kernel.cgroups import hierarchies
from tests.e2e.bench_cri import PLUGIN, PROC, Node, cgroups
from tests.e2e.containerd import Containerd, containerd, why_not
from tests.e2e.deployed import make_image

_WITH_IMAGE = {"test_image", "test_deployed_cri", "test_deployed_generic", "test_deployed_oci"}
_WITH_ENGINE = {path.stem for path in Path(__file__).parent.glob("test_cri*.py")} | {
    *("test_forwarded_ports", "test_gpu_containers", "test_injected_specs"),
}


class _Together(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives each module to one process of pytest-xdist, and to the same one those that share what is made slowly."""

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.partition("::")[0]).stem
        return "image" if module in _WITH_IMAGE else "engine" if module in _WITH_ENGINE else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Together | None:
    return _Together(config, log) if config.getoption("dist") == "loadfile" else None


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


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `make_image`; ``PLUGBAY_E2E_IMAGE`` names one that was made before."""
    if made := os.environ.get("PLUGBAY_E2E_IMAGE"):
        return Path(made)
    directory = tmp_path_factory.mktemp("image")
    make_image(directory)
    return directory


@pytest.fixture
def node(sockets: Path, engine: Containerd) -> Iterator[Node]:
    """A node on containerd; whatever its pods leave fails the test."""
    made = Node(sockets, engine)
    yield made
    engine.until_no_more_than(0)  # what was broken off is cleared away by and by
    assert [each for root in hierarchies(proc_root=PROC) for each in root.glob(cgroups(sockets))] == []
    engine.until_nothing_runs()
    assert engine.leavings() == []
    assert list((sockets / "logs/pods").glob("*")) == []
    assert [each for each in sockets.rglob("*") if each.is_socket()] == []


@pytest.fixture
async def plugin(node: Node, tmp_path: Path) -> AsyncIterator[None]:
    """Two devices, each of them ``/dev/fuse`` under another name."""
    (tmp_path / "word").write_text("hello\n")
    (tmp_path / "plugin.py").write_text(PLUGIN % str(tmp_path))
    async with node.start("serve", str(tmp_path / "plugin.py"), "--log-level", "error") as serving:
        yield
        serving.terminate()
        await serving.wait()


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
