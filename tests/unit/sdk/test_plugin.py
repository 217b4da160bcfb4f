from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin, Mount, plugin
from plugbay.errors import ConflictingEdits, InvalidResourceName, PluginLoadError
from plugbay.model.devices import PluginOptions
from plugbay.sdk.plugin import options_of, watched_paths
from plugbay.sdk.targets import load_plugins


def test_overriding_a_hook_switches_its_option_on() -> None:
    class Plain(DevicePlugin):
        resource_name = "example.com/r"

    class Starting(Plain):
        def pre_start_container(self, devices: Sequence[Device]) -> None: ...

    class Preferring(Starting):
        def preferred_allocation(
            self, available: Sequence[Device], must_include: Sequence[Device], size: int
        ) -> Sequence[Device]:
            return available

    assert options_of(Plain()) == PluginOptions()
    assert options_of(Starting()) == PluginOptions(pre_start_required=True)
    assert options_of(Preferring()) == PluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


def test_default_allocate_joins_values_in_device_order_and_mounts_once() -> None:
    mount = Mount("/opt/x", container_path="/lib/x", read_only=True)
    devices = [Device(name, env={"ID": name, "KIND": "k"}, mounts=[mount]) for name in "ab"]
    assert DevicePlugin().allocate(devices) == ContainerEdits(env={"ID": "a,b", "KIND": "k,k"}, mounts=(mount,))


def test_separator_is_the_plugins_choice() -> None:
    class Colon(DevicePlugin):
        join_env = ":"

    class Single(DevicePlugin):
        join_env = None

    same = [Device(name, env={"KIND": "k"}) for name in "ab"]
    assert Colon().allocate(same) == ContainerEdits(env={"KIND": "k:k"})
    assert Single().allocate(same) == ContainerEdits(env={"KIND": "k"})
    with pytest.raises(ConflictingEdits, match="environment variable 'ID': a and b"):
        Single().allocate([Device(name, env={"ID": name}) for name in "ab"])


def test_bad_resource_name_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidResourceName, match='the ResourceName "gopher" is invalid'):

        @plugin("gopher")
        def gophers() -> Iterator[Device]:
            yield Device("a")


@pytest.mark.parametrize(
    ("watch", "paths"),
    [("/a", [Path("/a")]), (Path("/a"), [Path("/a")]), (["/a", Path("/b")], [Path("/a"), Path("/b")]), ((), [])],
)
def test_watch_takes_one_path_or_several(watch: str | Path | list[str | Path], paths: list[Path]) -> None:
    @plugin("example.com/r", watch=watch)
    def found(_: object) -> list[Device]:
        return []

    assert list(watched_paths(found)) == paths


def test_function_is_handed_what_it_watches() -> None:
    seen: list[object] = []

    @plugin("example.com/one", watch="/a")
    def one(root: Path) -> list[Device]:
        seen.append(root)
        return []

    @plugin("example.com/two", watch=["/a", "/b"])
    def two(roots: list[Path]) -> list[Device]:
        seen.append(roots)
        return []

    one.discover()
    two.discover()
    assert seen == [Path("/a"), [Path("/a"), Path("/b")]]


# --- serve targets --------------------------------------------------------------------------------------------------

GOOD = """
from plugbay import Device, DevicePlugin, plugin

@plugin("example.com/one")
def one():
    yield Device("a")

class Base(DevicePlugin):
    resource_name = "example.com/base"

class Two(Base):
    resource_name = "example.com/two"
"""


def names_of(target: str) -> list[str]:
    return [each.resource_name for each in load_plugins(target) if isinstance(each, DevicePlugin)]


def test_file_gives_its_plugins_and_no_base_classes(tmp_path: Path) -> None:
    (tmp_path / "good_target.py").write_text(GOOD)
    assert names_of(str(tmp_path / "good_target.py")) == ["example.com/one", "example.com/two"]


def test_module_and_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_target.py").write_text(GOOD)
    monkeypatch.syspath_prepend(tmp_path)
    assert names_of("module_target:Two") == ["example.com/two"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "no such file", id="missing"),
        pytest.param("x = 1", "it defines no plugin", id="empty"),
        pytest.param("import nonsense_module", "ModuleNotFoundError: No module named 'nonsense_module'", id="fails"),
        pytest.param("def", "SyntaxError", id="syntax"),
        pytest.param(
            "from plugbay import DevicePlugin\nclass P(DevicePlugin):\n    resource_name = 'bad'\n",
            'the ResourceName "bad" is invalid',
            id="name",
        ),
        pytest.param(
            "from plugbay import DevicePlugin\nclass P(DevicePlugin):\n    def __init__(self, x): ...\n",
            "TypeError",
            id="needs-arguments",
        ),
    ],
)
def test_file_that_gives_no_plugin_is_named(tmp_path: Path, content: str | None, problem: str) -> None:
    path = tmp_path / "target.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PluginLoadError) as caught:
        load_plugins(str(path))
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("target", ["nonsense", ":x", "os:", "os:nothing_there", "os:path"])
def test_target_of_no_known_form_is_refused(target: str) -> None:
    with pytest.raises(PluginLoadError):
        load_plugins(target)
