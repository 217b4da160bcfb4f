from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plugbay.node.access.peers import containers_are_refused, shares_mounts

PROC = Path("/proc")
PREFIX = "plugbay-01234567-"


class Peer:
    """A connection whose other end is a process of a test's choice."""

    def __init__(self, pid: int, uid: int) -> None:
        self._credentials = struct.pack("iII", pid, uid, uid)

    def getsockopt(self, *_: int) -> bytes:
        return self._credentials


def refusal(peer: Any, proc_root: Path = PROC) -> str:
    return containers_are_refused(cgroup_prefixes=(PREFIX,), proc_root=proc_root)(peer)


def a_process(root: Path, cgroup: str) -> Path:
    (root / "7").mkdir()
    (root / "7/cgroup").write_text(f"2:cpu:{cgroup}\n0::{cgroup}\n")
    return root


def as_root(monkeypatch: pytest.MonkeyPatch, uid: int = 0) -> None:
    monkeypatch.setattr("plugbay.node.access.peers.os.geteuid", lambda: uid)


def test_process_of_the_host_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert refusal(here) == ""


@pytest.mark.parametrize("cgroup", [f"/{PREFIX}uid/c_0", f"/a/{PREFIX}uid/c/../x", f"/../{PREFIX}uid.slice/x"])
def test_process_in_a_cgroup_of_a_pod_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str) -> None:
    as_root(monkeypatch)
    assert refusal(Peer(7, 0), a_process(tmp_path, cgroup)) == "process 7 runs in a container of this node"


def test_process_in_another_cgroup_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)
    assert refusal(Peer(7, 0), a_process(tmp_path, "/user.slice/plugbay-other/x")) == ""


def test_process_that_has_ended_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)
    assert refusal(Peer(7, 0), tmp_path) == "process 7 cannot be looked at: No such file or directory"


def test_process_outside_of_our_pid_namespace_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch)
    assert refusal(Peer(0, 0), tmp_path) == ""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_without_root_rights_user_namespaces_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(monkeypatch, uid=1000)
    inside = subprocess.Popen(["unshare", "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert inside.stdin
        assert inside.stdout
        inside.stdin.write(b"x\n")
        inside.stdin.flush()
        if not inside.stdout.readline():
            pytest.skip("this kernel gives user namespaces to root only")
        assert refusal(Peer(inside.pid, 1000)) == f"process {inside.pid} runs in a container of this node"
        assert refusal(Peer(inside.pid, 0)) == "", "root is not the root of our containers"
        assert refusal(Peer(os.getpid(), 1000)) == ""
    finally:
        inside.communicate()


def test_server_in_our_mount_namespace_sees_what_we_mount(sockets: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(sockets / "s"))
        server.listen()
        assert shares_mounts(sockets / "s", proc_root=PROC)
    assert not shares_mounts(sockets / "s", proc_root=PROC), "nothing is known of it"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")
def test_server_in_another_mount_namespace_does_not(sockets: Path) -> None:
    serve = (
        "import socket, sys; server = socket.socket(socket.AF_UNIX); server.bind(sys.argv[1]); server.listen(); "
        "print('listens', flush=True); sys.stdin.read()"
    )
    argv = ["unshare", "--mount", sys.executable, "-c", serve, str(sockets / "s")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        assert server.stdout.readline() == b"listens\n"
        assert not shares_mounts(sockets / "s", proc_root=PROC)
        server.stdin.close()
