"""What the public packages offer, and what importing them costs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import plugbay
import plugbay.allocation.policies
import plugbay.errors
import plugbay.manager
import plugbay.node
import plugbay.testing
import plugbay.testing.fakenvml
import plugbay.testing.fakesysfs
import plugbay.testing.strategies

DOORS = (
    plugbay,
    plugbay.allocation.policies,
    plugbay.errors,
    plugbay.manager,
    plugbay.node,
    plugbay.testing,
    plugbay.testing.fakenvml,
    plugbay.testing.fakesysfs,
    plugbay.testing.strategies,
)
LAZY = (plugbay, plugbay.manager, plugbay.node, plugbay.testing)
NAMES = [(door, name) for door in DOORS for name in door.__all__]
HEAVY = ("asyncio", "grpc", "google.protobuf", "yaml", "h11", "msgspec")


@pytest.mark.parametrize("door", LAZY, ids=lambda door: door.__name__)
def test_type_checkers_and_python_find_the_same_names(door: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(door))
    checked = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing", "plugbay.doors")
        for alias in node.names
    }
    [places] = (ast.literal_eval(node) for node in ast.walk(tree) if isinstance(node, ast.Dict))
    assert checked == {(module, name) for module, names in places.items() for name in names}
    assert sorted(door.__all__) == sorted(name for _, name in checked)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_list_names_each_once(door: ModuleType) -> None:
    assert len(door.__all__) == len(set(door.__all__))


@pytest.mark.parametrize(("door", "name"), NAMES, ids=[f"{door.__name__}.{name}" for door, name in NAMES])
def test_exported_code_is_documented(door: ModuleType, name: str) -> None:
    value = getattr(door, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__.startswith("plugbay.")
        assert inspect.getdoc(value)


@pytest.mark.parametrize("door", LAZY)
def test_a_door_has_no_other_names(door: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = door.nonsense


@pytest.mark.parametrize("door", LAZY)
def test_names_are_shown_before_they_are_imported(door: ModuleType) -> None:
    code = f"import {door.__name__} as door; print(*dir(door))"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(shown) >= set(door.__all__)


@pytest.mark.parametrize("door", ["plugbay", "plugbay.manager", "plugbay.node", "plugbay.testing"])
def test_import_loads_nothing_heavy(door: str) -> None:
    code = f"import sys, {door}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert loaded == []


def test_node_loads_no_runtime_before_it_is_chosen() -> None:
    code = "import sys, plugbay.node.run, plugbay.node.runtimes.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    others = ("plugbay.runtimes.cri", "plugbay.runtimes.oci", "plugbay.wire.cri", "plugbay.wire.generated.cri_v1_pb2")
    assert [name for name in loaded if name.startswith(others)] == []
