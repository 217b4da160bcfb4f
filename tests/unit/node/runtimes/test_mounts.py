"""What is refused before an engine makes a directory of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.node.runtimes.mounts import check_mounts
from plugbay.node.runtimes.port import ContainerSpec

SPEC = ContainerSpec(PodUid("u"), "default", "web", ContainerName("c"), 0, "", ("run",), None, {}, (), ContainerEdits())


def test_mount_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    good, bad = Mount(tmp_path, container_path="/x"), Mount(tmp_path / "nope", container_path="/x")
    check_mounts(replace(SPEC, mounts=(good,), edits=ContainerEdits(mounts=(good,))))
    for spec in (replace(SPEC, mounts=(bad,)), replace(SPEC, edits=ContainerEdits(mounts=(bad,)))):
        with pytest.raises(ContainerStartError, match=r"lstat .*nope: no such file or directory"):
            check_mounts(spec)
