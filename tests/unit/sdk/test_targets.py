from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay import DevicePlugin, PluginSource
from plugbay.errors import PluginLoadError
from plugbay.sdk.targets import load_plugins

CARDS = """
from plugbay import DevicePlugin

class Cards(DevicePlugin):
    def __init__(self, slot=0):
        self.resource_name = f"example.com/slot-{slot}"
"""
MODES = """
from plugbay import DevicePlugin, plugin, resources

class Mode(DevicePlugin):
    def __init__(self, name):
        self.resource_name = f"example.com/{name}"

@resources(every=5)
def modes():
    yield Mode("a")

@plugin("example.com/fixed")
def fixed():
    return []
"""

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return str(path)

    return write


def only_plugin(target: str, settings: dict[str, object] | None = None) -> DevicePlugin:
    [loaded] = load_plugins(target, settings)
    assert isinstance(loaded, DevicePlugin)
    return loaded


def test_files_of_one_name_do_not_share_a_module(write: Write) -> None:
    one, other = (only_plugin(write(f"{each}/same_name.py", CARDS)) for each in ("one", "other"))
    assert type(one) is not type(other)
    for each in (one, other):
        assert type(pickle.loads(pickle.dumps(each))) is type(each)


def test_file_is_run_once(write: Write) -> None:
    file = write("once.py", CARDS)
    assert type(only_plugin(file)) is type(only_plugin(f"{file}:Cards"))


def test_file_that_failed_can_be_mended(write: Write) -> None:
    file = write("mended.py", "1 / 0")
    with pytest.raises(PluginLoadError, match="ZeroDivisionError"):
        load_plugins(file)
    write("mended.py", CARDS)
    assert only_plugin(file).resource_name == "example.com/slot-0"


def test_settings_are_arguments(write: Write) -> None:
    assert only_plugin(write("set.py", CARDS) + ":Cards", {"slot": 4}).resource_name == "example.com/slot-4"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("", "name that as .*/cards.py:CLASS", id="whole-file"),
        pytest.param(":modes", "arguments for a class, and this is none", id="no-class"),
        pytest.param(":Mode", "TypeError: .*unexpected keyword argument 'slot'", id="unknown"),
    ],
)
def test_settings_of_no_use_are_refused(write: Write, name: str, problem: str) -> None:
    with pytest.raises(PluginLoadError, match=problem):
        load_plugins(write("cards.py", MODES) + name, {"slot": 4})


def test_file_with_a_source_gives_it_and_what_was_made(write: Write) -> None:
    source, fixed = load_plugins(write("modes.py", MODES))
    assert isinstance(source, PluginSource)
    assert (source.name, source.every) == ("modes", 5)
    assert isinstance(fixed, DevicePlugin)
    assert fixed.resource_name == "example.com/fixed"
