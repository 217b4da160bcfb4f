"""The files of a volume: a kubelet's layout, whatever is changed, and wherever an earlier write was killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.pods.running.atomic_files import is_written, write_files
from plugbay.pods.running.projecting import Payload, ProjectedFile

NOW = datetime(2026, 11, 23, 18, 35, 44, tzinfo=UTC)


def files(**contents: str) -> Payload:
    return {name: ProjectedFile(content.encode(), 0o644) for name, content in contents.items()}


def shown(directory: Path) -> dict[str, str]:
    """The files that a reader of the volume finds, not counting those that the layout hides."""
    return {
        str(Path(parent, name).relative_to(directory)): Path(parent, name).read_text()
        for parent, directories, names in os.walk(directory, followlinks=True)
        if not any(part.startswith("..") for part in Path(parent).relative_to(directory).parts)
        for name in names
        if not name.startswith("..")
    }


def test_files_lie_behind_links_as_in_a_kubelets_volume(tmp_path: Path) -> None:
    write_files(tmp_path, {**files(plain="1"), "deep/er/file": ProjectedFile(b"2", 0o400)}, now=NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "deep", "..data", os.readlink(tmp_path / "..data")}
    assert os.readlink(tmp_path / "plain") == "..data/plain"
    assert os.readlink(tmp_path / "deep") == "..data/deep"
    assert os.readlink(tmp_path / "..data").startswith("..2026_11_23_18_35_44.")
    assert shown(tmp_path) == {"plain": "1", "deep/er/file": "2"}
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "deep/er/file").stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "deep/er").stat().st_mode) == 0o755


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    write_files(tmp_path, files(a="1"), now=NOW)
    before = os.readlink(tmp_path / "..data")
    write_files(tmp_path, files(a="1"), now=NOW)
    assert os.readlink(tmp_path / "..data") == before
    write_files(tmp_path, {"a": ProjectedFile(b"1", 0o600)}, now=NOW)
    assert os.readlink(tmp_path / "..data") != before, "a mode is a change"


def test_an_open_directory_shows_the_old_or_the_new_files_never_both(tmp_path: Path) -> None:
    write_files(tmp_path, files(a="1", b="1"), now=NOW)
    held = os.open(tmp_path / "..data", os.O_RDONLY | os.O_DIRECTORY)
    try:
        write_files(tmp_path, files(a="2", c="2"), now=NOW)
    finally:
        os.close(held)
    assert shown(tmp_path) == {"a": "2", "c": "2"}
    assert len(list(tmp_path.glob("..2026*"))) == 1


def test_a_volume_may_have_no_files(tmp_path: Path) -> None:
    assert not is_written(tmp_path)
    write_files(tmp_path, {}, now=NOW)
    assert is_written(tmp_path)
    assert shown(tmp_path) == {}
    write_files(tmp_path, files(a="1"), now=NOW)
    write_files(tmp_path, {}, now=NOW)
    assert shown(tmp_path) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="files are given to another group by root only")
def test_the_group_of_the_pod_owns_and_reads_all(tmp_path: Path) -> None:
    write_files(tmp_path, {"d/f": ProjectedFile(b"", 0o400, owner=7)}, now=NOW, group=4711)
    file, directory = (tmp_path / "d/f").stat(), (tmp_path / "d").stat()
    assert (file.st_uid, file.st_gid, stat.S_IMODE(file.st_mode)) == (7, 4711, 0o440)
    assert (directory.st_gid, stat.S_IMODE(directory.st_mode)) == (4711, 0o2755)
    assert (tmp_path.stat().st_gid, stat.S_IMODE((tmp_path / "..data/").stat().st_mode)) == (4711, 0o2755)
    before = os.readlink(tmp_path / "..data")
    write_files(tmp_path, {"d/f": ProjectedFile(b"", 0o400, owner=7)}, now=NOW, group=4711)
    assert os.readlink(tmp_path / "..data") == before


def test_a_file_that_is_also_a_directory_leaves_the_volume_as_it_was(tmp_path: Path) -> None:
    write_files(tmp_path, files(a="1"), now=NOW)
    with pytest.raises(OSError, match=r"exists|directory"):
        write_files(tmp_path, {**files(b="2"), "b/c": ProjectedFile(b"", 0o644)}, now=NOW)
    assert shown(tmp_path) == {"a": "1"}
    assert len(list(tmp_path.glob("..2026*"))) == 1


class Killed(BaseException):
    """What a process that is killed sees: nothing more."""


STEPS = ("mkdir", "symlink", "rename", "unlink", "rmdir", "open", "chmod")


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A countdown of system calls; at 0 the process would be gone, and nothing of it cleans up."""
    left = [-1]
    for name in STEPS:
        real = getattr(os, name)

        def step(*args: object, _real: object = real, **kwargs: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return _real(*args, **kwargs)  # type: ignore[operator]  # a function of os

        monkeypatch.setattr(os, name, step)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    yield left
    monkeypatch.undo()


def test_whenever_it_is_killed_readers_see_one_state_and_the_next_write_mends_all(
    tmp_path: Path, killed_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = files(a="1", b="1"), files(b="2", c="2")
    for steps in range(40):
        volume = tmp_path / str(steps)
        volume.mkdir()
        killed_at[0] = -1
        write_files(volume, old, now=NOW)
        killed_at[0] = steps
        try:
            write_files(volume, new, now=NOW)
            ended = True
        except Killed:
            ended = False
        killed_at[0] = -1
        data = {path.name: path.read_text() for path in (volume / "..data").iterdir()}
        assert data in ({"a": "1", "b": "1"}, {"b": "2", "c": "2"})
        if ended:
            break
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", _rmtree)
            write_files(volume, new, now=NOW)
        assert shown(volume) == {"b": "2", "c": "2"}
        assert len(list(volume.glob("..*"))) == 2
    assert ended, "it has fewer steps"
    assert steps > 5


_rmtree = shutil.rmtree

names = st.from_regex(r"[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,8}", fullmatch=True)
payloads = st.dictionaries(
    st.lists(names, min_size=1, max_size=3).map("/".join),
    st.builds(ProjectedFile, st.binary(max_size=8), st.integers(0o400, 0o777)),
    max_size=5,
).filter(lambda found: not any(other.startswith(f"{path}/") for path in found for other in found))


@settings(max_examples=60, deadline=None)
@given(st.lists(payloads, min_size=1, max_size=4))
def test_a_volume_shows_what_was_written_last(states: list[Payload]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        volume = Path(directory)
        for state in states:
            write_files(volume, state, now=NOW)
            assert {path: (volume / path).read_bytes() for path in state} == {
                path: file.content for path, file in state.items()
            }
            assert {stat.S_IMODE((volume / path).stat().st_mode) for path in state} == {
                file.mode for file in state.values()
            }
            assert set(shown_names(volume)) == set(state)


def shown_names(directory: Path) -> Iterator[str]:
    for parent, directories, names in os.walk(directory, followlinks=True):
        directories[:] = [each for each in directories if not each.startswith("..")]
        for name in names:
            if not name.startswith(".."):
                yield str(Path(parent, name).relative_to(directory))
