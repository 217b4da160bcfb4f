"""IPC and UTS namespaces on files; those of networks have tests of their own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.namespaces import NamespaceKind, in_namespace, is_namespace, make_namespace, remove_namespace

PROC = Path("/proc")
pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


@pytest.fixture(params=[NamespaceKind.IPC, NamespaceKind.UTS], ids=str)
def kind(request: pytest.FixtureRequest) -> NamespaceKind:
    made: NamespaceKind = request.param
    return made


@pytest.fixture
def path(tmp_path: Path, kind: NamespaceKind) -> Iterator[Path]:
    made = tmp_path / "namespaces" / "one"
    try:
        make_namespace(kind, made, proc_root=PROC)
    except NamespaceUnusable as error:
        pytest.skip(str(error))
    yield made
    remove_namespace(kind, made)
    assert str(tmp_path) not in (PROC / "self/mountinfo").read_text()


def test_namespace_is_another_one_of_its_kind(kind: NamespaceKind, path: Path) -> None:
    other = NamespaceKind.NETWORK
    assert (is_namespace(kind, path), is_namespace(other, path)) == (True, False)
    own = (PROC / "thread-self/ns" / kind.entry).stat().st_ino
    inside = in_namespace(kind, path, lambda: (PROC / "thread-self/ns" / kind.entry).stat().st_ino)
    assert inside == path.stat().st_ino != own
    with pytest.raises(NamespaceUnusable, match=r"cannot be entered"):
        in_namespace(other, path, os.getpid)
    with pytest.raises(NamespaceUnusable, match=r"cannot be removed: "):
        remove_namespace(other, path)
    assert is_namespace(kind, path)


def test_name_is_given_inside_only(tmp_path: Path) -> None:
    path, before = tmp_path / "uts", socket.gethostname()
    try:
        furnish = partial(socket.sethostname, "gopher-host")
        make_namespace(NamespaceKind.UTS, path, proc_root=PROC, furnish=furnish)
    except NamespaceUnusable as error:
        pytest.skip(str(error))
    try:
        assert (in_namespace(NamespaceKind.UTS, path, socket.gethostname), socket.gethostname()) == (
            "gopher-host",
            before,
        )
    finally:
        remove_namespace(NamespaceKind.UTS, path)


def test_what_cannot_be_furnished_is_not_made(tmp_path: Path, kind: NamespaceKind) -> None:
    path = tmp_path / "one"
    with pytest.raises(NamespaceUnusable, match=r"cannot be made: "):
        make_namespace(kind, path, proc_root=PROC, furnish=partial(os.stat, tmp_path / "nope"))
    assert not path.exists()
