from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, Mount, health, plugin, resources
from plugbay.errors import ConflictingEdits, InvalidHealthCheck, InvalidPlugin, InvalidResourceName, PluginLoadError
from plugbay.model.devices import PluginOptions
from plugbay.sdk.author.near_misses import near_hooks
from plugbay.sdk.author.plugin import health_checks, options_of, watched_paths
from plugbay.sdk.process.targets import load_plugins


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


def test_a_bare_decorator_says_what_to_write() -> None:
    with pytest.raises(InvalidPlugin) as refusal:
        plugin(lambda: [])  # type: ignore[arg-type]
    assert str(refusal.value) == '<lambda>: write @plugin("vendor.domain/type"), with the name of the resource'


def test_other_decorators_may_be_bare() -> None:
    @health
    def check(device: Device) -> bool:
        return True

    @resources
    def sources() -> list[DevicePlugin]:
        return []

    @plugin("example.com/r", health=check)
    def things() -> list[Device]:
        return []

    [found] = health_checks(things)
    assert (found.settings.every_s, found.settings.timeout_s) == (10.0, 5.0)
    assert (sources.name.rpartition(".")[2], sources.every) == ("sources", None)


def test_durations_may_be_texts() -> None:
    @health(every="1m", timeout="500ms")
    def check(device: Device) -> bool:
        return True

    @resources(every="30s")
    def sources() -> list[DevicePlugin]:
        return []

    @plugin("example.com/r", every="1h30m", health=check)
    def things() -> list[Device]:
        return []

    [found] = health_checks(things)
    assert (found.settings.every_s, found.settings.timeout_s) == (60.0, 0.5)
    assert sources.every == 30.0
    assert things.every == "1h30m"
    for wrong in ("5", "0s", "soon", True, 0):
        with pytest.raises(InvalidPlugin, match="`every` is"):
            plugin("example.com/r", every=wrong)
        with pytest.raises(InvalidHealthCheck, match="more than 0 seconds"):
            health(every=wrong)(check)
    with pytest.raises(InvalidPlugin, match="`watch` has 5, which is not a path"):
        plugin("example.com/r", watch=5)  # type: ignore[arg-type]


def test_a_method_that_is_nearly_called_like_a_hook_is_named() -> None:
    class Typing(DevicePlugin):
        resource_name = "example.com/r"

        def prefered_allocation(self) -> None: ...

        def setup(self) -> None: ...

        def release(self, assignment: Assignment) -> None: ...

        def describe(self) -> None: ...

        def _alocate(self) -> None: ...

    assert [str(each) for each in near_hooks(Typing)] == [
        "prefered_allocation() is never called; did you mean preferred_allocation()?",
        "setup() is never called; did you mean set_up()?",
    ]


def test_a_base_that_is_not_served_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "derived.py"
    file.write_text(
        "from plugbay import DevicePlugin\n"
        "class Base(DevicePlugin):\n    resource_name = 'example.com/base'\n"
        "class Other(Base):\n    resource_name = 'example.com/other'\n"
    )
    [other] = load_plugins(str(file))
    assert isinstance(other, DevicePlugin)
    assert other.resource_name == "example.com/other"
    assert caplog.messages == [f"{file}: Base is not served: Other is derived from it"]


def test_a_check_that_gives_something_else_does_not_pass_a_type_checker() -> None:
    """By the comment, which would be an error if it were not needed."""

    @health  # type: ignore[call-overload]
    def check(device: Device) -> str:
        return "hot"
