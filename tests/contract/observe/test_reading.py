"""Sources that cannot be read: a sentence for each, and never an exception."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from plugbay.documents import Json
from plugbay.observe.evidence import CheckpointEvidence
from plugbay.observe.joining.node import join
from plugbay.observe.places import HOST, is_own_root
from plugbay.observe.reading import node
from plugbay.observe.reading.checkpoint_file import read_checkpoint
from plugbay.observe.reading.cpu_state import read_cpu_state
from plugbay.observe.reading.host_name import read_host_name
from plugbay.observe.reading.meeting import reachable
from plugbay.observe.reading.node import read_node
from plugbay.observe.reading.pages import read_node_devices, read_plugin_status
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.reading.sockets import read_sockets
from plugbay.observe.view import ReadingProblem, Witness
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress, UnixAddress
from tests.contract.rigs.seen_kubelet import SeenKubelet, entry, listening

NOBODY: Final = 65534


@contextmanager
def without_rights(kubelet: SeenKubelet) -> Iterator[None]:
    """This process may not look into the directories of a kubelet meanwhile."""
    user = os.geteuid()
    for directory in (kubelet.root, kubelet.logs):
        directory.chmod(0)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        for directory in (kubelet.root, kubelet.logs):
            directory.chmod(0o700)


async def test_without_rights_every_source_says_so(tmp_path: Path) -> None:
    kubelet = SeenKubelet(tmp_path)
    kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g1"])
    (kubelet.root / "cpu_manager_state").write_text("{}")
    readable = await read_node(kubelet.places(), now=SystemClock().now())  # and all modules are imported
    assert [problem.witness for problem in readable.problems] == [Witness.POD_RESOURCES]
    with without_rights(kubelet):
        assert not is_own_root(kubelet.root)
        found = await read_node(kubelet.places(), now=SystemClock().now(), asking=AllowedCalls.LIST)
    denied = {problem.witness for problem in found.problems if "permission denied" in problem.sentence}
    assert denied == {Witness.CHECKPOINT, Witness.POD_RESOURCES, Witness.PODS, Witness.SOCKETS, Witness.CPUS}
    view = join(found)
    assert (view.is_partial, view.resources) == (True, ())


@pytest.mark.parametrize("stamp", [-(10**12), 10**12])
async def test_time_stamps_beyond_the_calendar_are_read(stamp: int) -> None:
    """As file systems such as tmpfs keep them; a container may set those of its files."""
    with TemporaryDirectory(dir="/dev/shm") as directory:
        kubelet = SeenKubelet(Path(directory))
        kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g1"])
        (kubelet.root / "pods/u1").mkdir(parents=True)
        with listening(kubelet.device_plugins / "gpu.sock"):
            for path in (*kubelet.device_plugins.iterdir(), kubelet.root / "pods/u1"):
                os.utime(path, (stamp, stamp))
            view = join(await read_node(kubelet.places(), now=SystemClock().now()))
    [device] = view.resources[0].devices
    assert [holder.uid for holder in device.holders] == ["u1"]


@contextmanager
def trickling(family: int, address: str | tuple[str, int]) -> Iterator[tuple[str, int]]:
    """A server that sends a byte of its answer every tenth of a second, without end."""
    ended = threading.Event()
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        listener.settimeout(10)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while not ended.wait(0.1):
                    connection.sendall(b" ")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_page_that_comes_byte_by_byte_does_not_hold_up_the_reading(sockets: Path, family: int) -> None:
    path = sockets / "page.sock"
    with trickling(family, str(path) if family == socket.AF_UNIX else ("127.0.0.1", 0)) as name:
        address = UnixAddress(path) if family == socket.AF_UNIX else TcpAddress("127.0.0.1", name[1])
        began = time.monotonic()
        page, (problem,) = read_plugin_status(address, timeout_s=0.5)
        assert time.monotonic() - began < 5
    assert page is None
    assert problem.sentence.endswith("no answer within 0.5 s")


@pytest.mark.parametrize("name", ["device-plugins/kubelet_internal_checkpoint", "cpu_manager_state"])
async def test_file_that_is_a_pipe_is_told_instead_of_waited_for(tmp_path: Path, name: str) -> None:
    kubelet = SeenKubelet(tmp_path)
    os.mkfifo(kubelet.root / name)
    writer = os.open(kubelet.root / name, os.O_RDWR)
    try:
        async with asyncio.timeout(10):
            found = await read_node(kubelet.places(), now=SystemClock().now(), asking=AllowedCalls.NOTHING)
    finally:
        os.close(writer)
    (problem,) = found.problems
    assert problem.sentence.endswith("cannot be read: it is not a regular file")


def test_cpus_of_a_pod_as_a_whole_are_read_without_those_of_its_containers(tmp_path: Path) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text('{"entries": {"u1": {"c": "2"}}, "podEntries": {"u1": {"cpuSet": "2-4"}, "u2": {"cpuSet": "5"}}}')
    assert read_cpu_state(path) == ({("u1", "c"): (2,), ("u1", ""): (3, 4), ("u2", ""): (5,)}, ())


def test_sockets_are_told_apart(tmp_path: Path) -> None:
    with listening(tmp_path / "left.sock"):
        os.link(tmp_path / "left.sock", tmp_path / "stale.sock")
    with listening(tmp_path / "alive.sock"):
        (tmp_path / "file.sock").touch()
        sockets, problems = read_sockets(tmp_path, proc=Path("/proc"))
    assert [(each.name, each.pid) for each in sockets] == [("alive.sock", os.getpid()), ("stale.sock", None)]
    assert sockets[0].command
    assert not problems


def test_files_that_go_meanwhile_do_not_hide_sockets(tmp_path: Path) -> None:
    """As those that a kubelet makes and renames when it writes its checkpoint."""
    files = [tmp_path / str(number) for number in range(2000)]
    for file in files:
        file.touch()
    with listening(tmp_path / "alive.sock"), subprocess.Popen(["rm", *map(str, files)]) as removing:
        while removing.poll() is None:
            sockets, problems = read_sockets(tmp_path, proc=Path("/proc"))
            assert ([each.name for each in sockets], problems) == (["alive.sock"], ())


@pytest.mark.parametrize(
    "content", ["", "[]", '{"entries": {"u": {"c": "3-1"}}}', '{"entries": {"u": {"c": "x"}}}', "[" * 9000]
)
def test_a_cpu_state_of_another_form_is_read_as_empty_or_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "cpu_manager_state"
    path.write_text(content)
    found, problems = read_cpu_state(path)
    assert found == {} or problems


def test_pages_that_are_none_are_told(tmp_path: Path) -> None:
    for address in (UnixAddress(tmp_path / "none.sock"), TcpAddress("127.0.0.1", 1)):
        page, problems = read_plugin_status(address, timeout_s=2)
        assert page is None
        assert problems[0].sentence.startswith(f"the plugin at {address} does not tell its status: ")


async def test_the_checkpoint_is_read_once_more_only_if_it_was_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubelet = SeenKubelet(tmp_path)
    kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g1"])
    read: list[Path] = []

    def counted(path: Path) -> CheckpointEvidence:
        read.append(path)
        return read_checkpoint(path)

    def meanwhile(path: Path, *, timeout_s: float) -> tuple[Json | None, tuple[ReadingProblem, ...]]:
        if written := later.pop("entries", None):
            kubelet.add_pod("u2", "late")
            kubelet.write_checkpoint(written, ["g1"])
        return read_node_devices(path, timeout_s=timeout_s)

    monkeypatch.setattr(node, "read_checkpoint", counted)
    monkeypatch.setattr(node, "read_node_devices", meanwhile)
    later = {"entries": [entry("u2", "c", "g1")]}
    changed = await node.read_node(kubelet.places(), now=SystemClock().now(), asking=AllowedCalls.NOTHING)
    assert [each.uid for each in changed.checkpoint.entries or ()] == ["u2"]
    assert changed.known_pods["u2"].name == "late", "names are those of the pods that the checkpoint has"
    assert len(read) == 2
    await node.read_node(kubelet.places(), now=SystemClock().now(), asking=AllowedCalls.NOTHING)
    assert len(read) == 3


def test_a_socket_below_a_long_path_is_met_as_any_other(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, reachable(directory / "gpu.sock") as short:
        listener.bind(short)
        listener.listen()
        ((listens,), problems) = read_sockets(directory, proc=Path("/proc"))
    assert (listens.pid, problems) == (os.getpid(), ())
    ((left,), _) = read_sockets(directory, proc=Path("/proc"))
    assert not left.is_listening


@pytest.mark.parametrize(
    ("content", "name"),
    [("node-7\n", "node-7"), ("# the name\n\n Node-7 \nother\n", "node-7"), ("", ""), (None, "")],
    ids=["plain", "with a comment", "empty", "no file"],
)
def test_the_name_of_a_host_is_read_where_it_is_mounted(tmp_path: Path, content: str | None, name: str) -> None:
    if content is not None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/hostname").write_text(content)
    assert read_host_name(tmp_path) == name


def test_the_name_of_a_host_is_read_through_a_link_of_the_host(tmp_path: Path) -> None:
    """As on NixOS: /etc/hostname leads to /etc/static, which the machine has and a container does not."""
    (tmp_path / "etc/static").mkdir(parents=True)
    (tmp_path / "etc/static/hostname").write_text("node-7\n")
    (tmp_path / "etc/hostname").symlink_to("/etc/static/hostname")
    assert read_host_name(tmp_path) == "node-7"


def test_this_machine_has_its_own_name() -> None:
    assert read_host_name(HOST) == socket.gethostname().lower()
