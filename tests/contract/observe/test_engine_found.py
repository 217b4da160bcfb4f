"""The container engine that the doctor takes for the machine's, where there are sockets of several."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

from plugbay.observe.doctor.evidence.containers import read_engine
from plugbay.observe.doctor.evidence.host import Gaps, Host
from tests.contract.rigs.seen_kubelet import listening


def _leave(path: Path) -> None:
    """A socket of a process that has ended."""
    path.parent.mkdir(parents=True)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as left:
        left.bind(str(path))


def test_an_engine_that_listens_counts_before_one_that_left_its_socket(tmp_path: Path) -> None:
    _leave(tmp_path / "run/containerd/containerd.sock")
    crio = tmp_path / "run/crio/crio.sock"
    crio.parent.mkdir(parents=True)
    host = Host(0.0, root=tmp_path)
    with listening(crio):
        found = read_engine(host, Gaps())
    assert found is not None
    assert (found.name, found.is_listening) == ("CRI-O", True)
    found = read_engine(host, Gaps())
    assert found is not None
    assert (found.name, found.is_listening) == ("containerd", False)
