"""What is refused before an engine makes a directory of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.runtimes.mounts import check_mounts
from tests.container_specs import changed, container_spec

SPEC = container_spec()


def test_mount_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    good, bad = Mount(tmp_path, container_path="/x"), Mount(tmp_path / "nope", container_path="/x")
    check_mounts(changed(SPEC, mounts=(good,), edits=ContainerEdits(mounts=(good,))))
    for spec in (changed(SPEC, mounts=(bad,)), changed(SPEC, edits=ContainerEdits(mounts=(bad,)))):
        with pytest.raises(ContainerStartError, match=r"lstat .*nope: no such file or directory"):
            check_mounts(spec)
