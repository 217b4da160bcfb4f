"""What a container writes when the machine is short of something for a moment."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugbay.runtimes.supervised.output import Output


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    here = os.open(tmp_path, os.O_RDONLY)
    made = Output(here, max_bytes=100, max_files=3)
    yield made
    os.close(made.pipe)
    os.close(made.given)
    os.close(here)


def test_a_rotation_that_fails_once_is_tried_again(
    output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, failures = os.rename, [OSError(errno.ENFILE, "Too many open files in system")]

    def failing(*args: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        rename(*args, **options)

    monkeypatch.setattr(os, "rename", failing)
    for number in range(6):
        os.write(output.given, b"%029d\n" % number)
        output.pump()
    assert not failures
    assert (tmp_path / "log.1").read_text().splitlines() == [f"{number:029}" for number in range(3)]
    assert (tmp_path / "log.2").read_text().splitlines() == [
        "plugbay: 30 bytes of output are missing here: Too many open files in system",
        f"{4:029}",
    ]
    assert (tmp_path / "log").read_text().splitlines() == [f"{5:029}"]
