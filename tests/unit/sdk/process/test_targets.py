from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay import DevicePlugin, PluginSource
from plugbay.errors import PluginLoadError
from plugbay.sdk.process.targets import load_plugins

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
    file = write("mended.py", "import math\n\nmath.sqrt(1 / 0)")
    with pytest.raises(PluginLoadError, match=r"ZeroDivisionError: division by zero \(mended\.py, line 3\)$"):
        load_plugins(file)
    write("mended.py", CARDS)
    assert only_plugin(file).resource_name == "example.com/slot-0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("import sys\nsys.exit('bye')", "SystemExit: bye (odd.py, line 2)", id="exit"),
        pytest.param(
            "import asyncio\nraise asyncio.CancelledError('late')",
            "CancelledError: late (odd.py, line 2)",
            id="cancelled",
        ),
        pytest.param(
            "import pytest\npytest.importorskip('no_such_module')", "Skipped: could not import", id="skipped-as-a-test"
        ),
        pytest.param(
            "class Odd(Exception):\n    def __str__(self): return self.no_such\nraise Odd",
            "Odd (odd.py, line 3)",
            id="mute",
        ),
    ],
)
def test_file_that_ends_in_an_odd_way_is_told_in_one_sentence(write: Write, text: str, problem: str) -> None:
    file = write("odd.py", text)
    with pytest.raises(PluginLoadError) as refusal:
        load_plugins(file)
    assert f"cannot load a plugin from {file}: {problem}" in str(refusal.value)
    with pytest.raises(KeyboardInterrupt):
        load_plugins(write("interrupted.py", "raise KeyboardInterrupt"))


def test_settings_are_arguments(write: Write) -> None:
    assert only_plugin(write("set.py", CARDS) + ":Cards", {"slot": 4}).resource_name == "example.com/slot-4"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("", "name that as .*/cards.py:CLASS", id="whole-file"),
        pytest.param(":modes", "arguments for a class, and this is not a class", id="no-class"),
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


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("resource_name = 5", "the ResourceName 5 is invalid"),
        ("watch = 5", "example.com/x: `watch` has 5, which is not a path"),
        ("watch = ['/a', None]", "example.com/x: `watch` has None, which is not a path"),
        ("every = '5'", "example.com/x: `every` is '5'; it has to be more than 0 seconds, such as 5 or '5s', or None"),
        ("every = 0", "example.com/x: `every` is 0; it has to be more than 0 seconds, such as 5 or '5s', or None"),
        (
            "every = float('nan')",
            "example.com/x: `every` is nan; it has to be more than 0 seconds, such as 5 or '5s', or None",
        ),
        ("modes = 3", "example.com/x: `modes` is 3 and not a plugbay.Modes"),
        ("join_env = 3", "example.com/x: `join_env` is 3 and neither a text nor None"),
        ("cdi_kind = 3", "example.com/x: `cdi_kind` is 3 and neither a text nor None"),
        ("needs = property(lambda self: 1 / 0)", "cannot load a plugin from FILE: ZeroDivisionError: division by zero"),
        ("resource_name = property(lambda self: 1 / 0)", "cannot load a plugin from FILE: ZeroDivisionError: division"),
        ("cdi_answer = 'x'", "example.com/x: `cdi_answer` is 'x'; it has to be one of plugbay.CdiAnswer or more"),
    ],
)
def test_attributes_of_no_use_are_refused(write: Write, line: str, problem: str) -> None:
    text = (
        f"from plugbay import DevicePlugin\nclass X(DevicePlugin):\n    resource_name = 'example.com/x'\n    {line}\n"
    )
    file = write("attributes.py", text)
    with pytest.raises(PluginLoadError) as refusal:
        load_plugins(file)
    assert problem.replace("FILE", file) in str(refusal.value)


def test_source_that_can_never_look_is_refused(write: Write) -> None:
    text = "from plugbay import resources\n@resources(every=-1)\ndef shelves():\n    return []\n"
    with pytest.raises(
        PluginLoadError, match="shelves: `every` is -1; it has to be more than 0 seconds, such as 5 or '5s', or None"
    ):
        load_plugins(write("shelves.py", text))
