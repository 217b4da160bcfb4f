"""Network namespaces on files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.links import LinkState, link_addresses, link_state, set_link_state
from plugbay.kernel.netns import in_netns, is_netns, make_netns, remove_netns

PROC = Path("/proc")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def netns(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "netns" / "web"
    try:
        make_netns(path, proc_root=PROC)
    except NamespaceUnusable as error:
        pytest.skip(str(error))
    yield path
    remove_netns(path)


@pytest.mark.root
@needs_root
def test_namespace_is_another_one(netns: Path) -> None:
    assert is_netns(netns)
    assert netns.stat().st_ino != Path("/proc/self/ns/net").stat().st_ino
    assert in_netns(netns, lambda: os.stat("/proc/thread-self/ns/net").st_ino) == netns.stat().st_ino
    assert in_netns(netns, lambda: [each for each in os.listdir("/proc/thread-self/net") if each == "route"]) == [
        "route"
    ]


@pytest.mark.root
@needs_root
def test_loopback_is_down_and_can_be_brought_up(netns: Path) -> None:
    def bring_up() -> tuple[LinkState, LinkState, list[str]]:
        before = link_state("lo")
        set_link_state("lo", LinkState.UP)
        return before, link_state("lo"), [str(each) for each in link_addresses("lo", proc_root=PROC)]

    before, after, addresses = in_netns(netns, bring_up)
    assert (before, after) == (LinkState.DOWN, LinkState.UP)
    assert addresses[0] == "127.0.0.1/8"
    assert addresses[1:] in ([], ["::1/128"])


@pytest.mark.root
@needs_root
def test_namespace_is_made_once(netns: Path) -> None:
    with pytest.raises(NamespaceUnusable, match="exists already"):
        make_netns(netns, proc_root=PROC)
    assert is_netns(netns)


@pytest.mark.root
@needs_root
def test_removal_can_be_repeated(netns: Path) -> None:
    remove_netns(netns)
    remove_netns(netns)
    assert not netns.exists()
    assert str(netns) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.root
@needs_root
def test_what_a_killed_make_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "web"
    path.touch()
    make_netns(path, proc_root=PROC)
    assert is_netns(path)
    remove_netns(path)


def test_other_things_are_left_alone(tmp_path: Path) -> None:
    """A directory may be a mount point: removing it would detach what other mount namespaces have there."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    for name in ("directory", "file", "link"):
        with pytest.raises(NamespaceUnusable, match="is not a network namespace"):
            remove_netns(tmp_path / name)
    for name in ("directory", "file", "link"):
        with pytest.raises(NamespaceUnusable):
            make_netns(tmp_path / name, proc_root=PROC)
    assert sorted(os.listdir(tmp_path)) == ["directory", "file", "link", "target"]
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_gone_is_removed(tmp_path: Path) -> None:
    remove_netns(tmp_path / "gone")
    remove_netns(tmp_path / "no" / "directory")


def test_what_cannot_be_entered_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(NamespaceUnusable, match="cannot be entered"):
            in_netns(path, os.getpid)


@pytest.mark.root
@needs_root
def test_failure_inside_comes_out(netns: Path) -> None:
    with pytest.raises(OSError, match="No such device"):
        in_netns(netns, lambda: link_state("eth0"))
