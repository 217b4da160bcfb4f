"""Runs ``plugbay migrate`` and reads what it prints."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plugbay.cli.main import run

IMAGE = ("--image", "registry.example.com/plugbay:1")


def migrated(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[list[str], list[Any], str]:
    """The notes, the objects, and what is on standard error."""
    assert run(["migrate", *argv, *IMAGE] if "--" not in argv else ["migrate", *IMAGE, *argv]) == 0
    out, err = capsys.readouterr()
    notes = [line[2:] for line in out.splitlines() if line.startswith("# ") and "Serves" not in line]
    return notes, list(yaml.safe_load_all(out)), err


def command(objects: list[Any]) -> list[str]:
    [container] = objects[-1]["spec"]["template"]["spec"]["containers"]
    words: list[str] = container["command"]
    return words[2:-2]
