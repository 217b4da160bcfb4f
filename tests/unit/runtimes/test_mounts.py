"""What is refused before an engine makes a directory of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.runtimes.mounts import MissingMount, check_mounts, settle_missing_mounts
from tests.container_specs import changed, container_spec

SPEC = container_spec()


def test_mount_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    good, bad = Mount(tmp_path, container_path="/x"), Mount(tmp_path / "nope", container_path="/x")
    check_mounts(changed(SPEC, mounts=(good,), edits=ContainerEdits(mounts=(good,))))
    for spec in (changed(SPEC, mounts=(bad,)), changed(SPEC, edits=ContainerEdits(mounts=(bad,)))):
        with pytest.raises(ContainerStartError, match=r"lstat .*nope: no such file or directory"):
            check_mounts(spec)


@pytest.mark.parametrize("path", ["", "data", "."])
def test_path_that_is_nowhere_on_the_host_is_missing(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    spec = changed(SPEC, edits=ContainerEdits(mounts=(Mount(path, container_path="/x"),)))
    for check in (check_mounts, lambda spec: settle_missing_mounts(spec, MissingMount.REFUSE)):
        with pytest.raises(ContainerStartError) as caught:
            check(spec)
        expected = f"failed to generate container spec: lstat {path}: no such file or directory"
        assert (caught.value.reason, str(caught.value)) == ("CreateContainerError", expected)


def test_engine_of_its_own_is_left_to_say_what_a_relative_path_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mounts = Mount("", container_path=""), Mount("new/below", container_path="data")
    assert settle_missing_mounts(changed(SPEC, edits=ContainerEdits(mounts=mounts)), MissingMount.MAKE) == []
    assert list(tmp_path.iterdir()) == []
