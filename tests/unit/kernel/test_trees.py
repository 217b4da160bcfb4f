from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plugbay.kernel.trees import remove_tree

NOBODY = 65534


@contextmanager
def without_root_rights(directory: Path) -> Iterator[None]:
    """Act as a user that owns ``directory`` and has no capabilities."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(directory, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def closed_tree(directory: Path) -> Path:
    """A directory whose parts their owner may not look into."""
    inner = directory / "tree" / "closed" / "inner"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (inner / "link").symlink_to(directory / "kept")
    (inner / "up").symlink_to(directory)
    inner.chmod(0)
    inner.parent.chmod(0o500)
    return directory / "tree"


def test_what_its_owner_closed_to_itself_is_removed_and_no_link_followed(sockets: Path) -> None:
    kept = sockets / "kept"
    with without_root_rights(sockets):
        kept.mkdir(mode=0o500)
        tree = closed_tree(sockets)
        remove_tree(tree)
        remove_tree(tree)
    assert not tree.exists()
    assert kept.stat().st_mode & 0o777 == 0o500


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's directory")
def test_what_cannot_be_removed_is_told(sockets: Path) -> None:
    theirs = sockets / "tree" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "file").touch()
    (sockets / "tree").chmod(0o777)
    with without_root_rights(sockets), pytest.raises(PermissionError):
        remove_tree(sockets / "tree")
    assert (theirs / "file").exists()
