"""What ``import plugbay`` offers, and what it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import plugbay

HEAVY = ("asyncio", "grpc", "google.protobuf", "yaml", "h11", "msgspec")


def test_list_equals_reality() -> None:
    public = {name for name, value in vars(plugbay).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert public == set(plugbay.__all__)


def test_list_names_each_once() -> None:
    assert len(plugbay.__all__) == len(set(plugbay.__all__))


@pytest.mark.parametrize("name", plugbay.__all__)
def test_exported_code_is_documented(name: str) -> None:
    value = getattr(plugbay, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__.startswith("plugbay.")
        assert inspect.getdoc(value)


def test_import_loads_nothing_heavy() -> None:
    code = f"import sys, plugbay; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert loaded == []
