"""NUMA nodes out of a tree like /sys."""

from __future__ import annotations

from pathlib import Path

from plugbay.kernel.numa import read_numa_nodes
from plugbay.model.topology import ONE_NODE, NumaTopology, pretended_nodes


def make(sys: Path, **distances: str) -> Path:
    for node, text in distances.items():
        directory = sys / "devices/system/node" / node
        directory.mkdir(parents=True)
        (directory / "distance").write_text(text)
    return sys


def test_nodes_and_distances_are_read(tmp_path: Path) -> None:
    make(tmp_path, node0="10 20\n", node1="20 10\n")
    (tmp_path / "devices/system/node/online").write_text("0-1\n")
    assert read_numa_nodes(tmp_path) == pretended_nodes(2)


def test_nodes_may_have_gaps_and_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    make(tmp_path, node10="21 11 10", node2="12 10 11", node0="10 12 21")
    expected = {0: {0: 10, 2: 12, 10: 21}, 2: {0: 12, 2: 10, 10: 11}, 10: {0: 21, 2: 11, 10: 10}}
    assert read_numa_nodes(tmp_path) == NumaTopology((0, 2, 10), expected)


def test_distances_that_make_no_sense_are_none(tmp_path: Path) -> None:
    assert read_numa_nodes(make(tmp_path, node0="10 20", node1="20")).distances == {}
    (tmp_path / "devices/system/node/node1/distance").write_text("twenty ten")
    assert read_numa_nodes(tmp_path).distances == {}
    (tmp_path / "devices/system/node/node1/distance").unlink()
    assert read_numa_nodes(tmp_path) == NumaTopology((0, 1))


def test_machine_without_numa_is_one_node(tmp_path: Path) -> None:
    assert read_numa_nodes(tmp_path) == ONE_NODE
    (tmp_path / "devices/system/node").mkdir(parents=True)
    assert read_numa_nodes(tmp_path) == ONE_NODE
