"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_runs import LOADING

CARDS = """
from plugbay import Device, plugin

@plugin("example.com/card")
def cards():
    return [Device(f"card{number}", env={"CARD": str(number)}, numa_nodes=(number,)) for number in range(2)]
"""


def run(directory: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(CARDS + text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-W",
        "error",
        *LOADING,
        *options,
    ]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)


def test_each_test_has_a_kubelet_of_its_own(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest
from plugbay.testing import AdmissionError

roots = []

@pytest.mark.parametrize("time", [1, 2])
def test_pod_gets_a_card(kubelet, time):
    assert kubelet.capacity == {}
    kubelet.plugin(cards)
    assert kubelet.admit({"example.com/card": 1})["app"].env == {"CARD": "0"}
    roots.append(kubelet.paths.root)

def test_kubelets_are_gone():
    assert len(set(roots)) == 2
    assert not any(root.exists() for root in roots)

def test_several(open_kubelet):
    one, two = open_kubelet(), open_kubelet(numa_nodes=2)
    one.plugin(cards)
    assert (one.capacity, two.capacity) == ({"example.com/card": 2}, {})

@pytest.mark.kubelet(numa_nodes=2, topology_policy="single-numa-node")
class TestAligned:
    def test_marker_of_the_class(self, kubelet):
        kubelet.plugin(cards)
        with pytest.raises(AdmissionError, match="Topology locality"):
            kubelet.admit({"example.com/card": 2})

    @pytest.mark.kubelet(topology_policy="none")
    def test_marker_of_the_test_decides(self, kubelet):
        kubelet.plugin(cards)
        kubelet.admit({"example.com/card": 2})
""",
        "--strict-markers",
    )
    assert re.search(r"^=+ 6 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_async_tests_open_one_in_their_own_loop(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import asyncio
import pytest

@pytest.mark.kubelet(numa_nodes=2)
def test_without_a_plugin_for_async_tests(local_kubelet):
    async def test():
        async with local_kubelet() as kubelet:
            await kubelet.plugin(cards)
            assert (await kubelet.admit({"example.com/card": 1}))["app"].env == {"CARD": "0"}

    asyncio.run(test())
""",
    )
    assert re.search(r"^=+ 1 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_failures_explain_themselves_and_leave_nothing(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import threading

def test_wait(kubelet):
    kubelet.plugin(cards)
    kubelet.wait_for(allocatable={"example.com/card": 3}, within_s=0.05)

def test_refusal(kubelet):
    kubelet.plugin(cards)
    kubelet.admit({"example.com/card": 3})

def test_comparison(kubelet):
    kubelet.plugin(cards)
    assert kubelet.allocatable == {"example.com/card": 3}

def test_nothing_is_left():
    assert threading.active_count() == 1
""",
    )
    assert re.search(r"^=+ 3 failed, 1 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "- allocatable of example.com/card: 3" in done.stdout
    assert "+ allocatable of example.com/card: 2" in done.stdout
    assert "requested number of devices unavailable for example.com/card. Requested: 3, Available: 2" in done.stdout
    assert "{'example.com/card': 2} != {'example.com/card': 3}" in done.stdout
    assert "plugbay/testing" not in done.stdout  # no frame of ours


def test_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import os, signal

def test_ctrl_c(kubelet):
    print(kubelet.paths.root)
    os.kill(os.getpid(), signal.SIGINT)
    kubelet.wait_for(capacity={"example.com/card": 1}, within_s=60)
""",
        "-s",
    )
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    [root] = re.findall(r"/\S+/pb\w+", done.stdout)[:1]
    assert not Path(root).exists()


def test_marker_with_a_value_without_a_name_is_told_of(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest

@pytest.mark.kubelet(2)
def test_two_nodes(kubelet):
    pass
""",
    )
    assert "the marker kubelet takes options by name, such as numa_nodes=2; found 2" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_run_without_a_fixture_imports_nothing_heavy(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import sys

def test_modules():
    heavy = ("google.protobuf", "msgspec", "yaml", "sqlite3", "plugbay.manager", "plugbay.wire")
    assert [name for name in sys.modules if name.startswith(heavy)] == []
""",
    )
    assert re.search(r"^=+ 1 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr
