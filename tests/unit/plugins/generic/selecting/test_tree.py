"""The files of a host, on real directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.plugins.generic.selecting.tree import FileKind, HostTree


@pytest.fixture
def host(tmp_path: Path) -> Path:
    dev = tmp_path / "dev"
    (dev / "serial/by-id").mkdir(parents=True)
    (dev / "file").touch()
    (dev / "relative").symlink_to("serial/../file")
    (dev / "absolute").symlink_to("/dev/file")
    (dev / "loose").symlink_to("nowhere")
    (dev / "loop").symlink_to("loop")
    (dev / "serial/by-id/stick").symlink_to("../../file")
    return tmp_path


def test_kinds_of_files_below_a_root(host: Path) -> None:
    files = HostTree(host)
    kinds = {name: files.kind(f"/dev/{name}") for name in ("file", "relative", "absolute", "serial", "gone", "a\0b")}
    assert kinds == {
        "file": FileKind.OTHER,
        "relative": FileKind.OTHER,
        "absolute": FileKind.OTHER,
        "serial": FileKind.DIRECTORY,
        "gone": FileKind.MISSING,
        "a\0b": FileKind.MISSING,
    }
    assert files.kind("/dev/loose") is files.kind("/dev/loop") is FileKind.DANGLING


def test_kinds_of_nodes_of_this_machine() -> None:
    assert HostTree().kind("/dev/null") is FileKind.CHARACTER
    assert HostTree().kind("/dev") is FileKind.DIRECTORY


def test_links_lead_to_paths_of_the_host(host: Path) -> None:
    files = HostTree(host)
    for name in ("file", "relative", "absolute", "serial/by-id/stick"):
        assert files.target(f"/dev/{name}") == "/dev/file"
    assert files.target("/dev/loop") == "/dev/loop"
    (host / "dev/out").symlink_to("/../../dev/file")
    assert files.target("/dev/out") == "/dev/file"
    assert HostTree().target(str(host / "dev/relative")) == str(host / "dev/file")


def test_only_directories_have_names(host: Path) -> None:
    files = HostTree(host)
    assert sorted(files.names("/dev/serial")) == ["by-id"]
    assert list(files.names("/")) == ["dev"]
    assert list(files.names("/dev/file")) == list(files.names("/dev/gone")) == []
