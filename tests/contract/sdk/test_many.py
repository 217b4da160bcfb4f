"""Many resources in one process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from plugbay import Device, DevicePlugin, PluginSource, resources
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.tasks import first
from plugbay.plugins.directory.plugin import DirectoryPlugin
from plugbay.sdk.process.endings import Endings, IfNone
from plugbay.sdk.process.runner import serve, serving
from plugbay.sdk.process.sources import Member
from plugbay.sdk.watching import Watches
from plugbay.testing.fakes.kubelet import FakeKubelet, RegisteredPlugin, fake_kubelet
from tests.contract.rigs.logs import Errors, errors

__all__ = ["errors"]

COUNT = 50
DEADLINE_S = 30


def descriptors() -> list[str]:
    """The targets of our descriptors; of sockets, which have a number each, only how many there are."""
    return sorted(
        "a socket" if target.startswith("socket:") else target for target in _targets() if "/proc/" not in target
    )


async def until_descriptors(wanted: list[str]) -> None:
    """Threads that look at a directory that nobody serves any more may have it open for a moment yet."""
    async with asyncio.timeout(DEADLINE_S):
        while descriptors() != wanted:  # noqa: ASYNC110  # the kernel tells nobody of a file that is closed
            await asyncio.sleep(0.05)


async def until_entries(directory: Path, wanted: set[str]) -> None:
    async with watch_paths([directory]) as changes, asyncio.timeout(DEADLINE_S):
        while {path.name for path in directory.iterdir()} != wanted:
            await anext(changes)


def _targets() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            yield os.readlink(entry)
        except FileNotFoundError:  # that of this very look
            continue


async def all_register(kubelet: FakeKubelet) -> None:
    names = set()
    for _ in range(COUNT):
        plugin = await kubelet.next_registration()
        await plugin.until_devices("a")
        names.add(plugin.registration.resource_name)
    assert len(names) == COUNT


async def test_fifty_resources_share_a_process_and_survive_a_kubelet(sockets: Path) -> None:
    paths = KubeletPaths(sockets)
    plugins: list[DevicePlugin] = []
    for number in range(COUNT):
        directory = sockets / f"d{number}"
        directory.mkdir()
        (directory / "a").touch()
        plugins.append(DirectoryPlugin(f"example.com/r{number}", directory, env="R"))
    async with fake_kubelet(paths) as kubelet:
        gc.collect()  # what other tests have left open
        before = descriptors()
        async with serving(plugins, paths=paths):
            await all_register(kubelet)
            assert sum("inotify" in target for target in _targets()) == 1
            await kubelet.restart()
            await all_register(kubelet)
        await until_descriptors(before)


async def test_one_resource_that_vanishes_disturbs_no_other(sockets: Path) -> None:
    class Things(DevicePlugin):
        def __init__(self, name: str) -> None:
            self.resource_name = f"example.com/{name}"

        def discover(self) -> list[Device]:
            return [Device("a")]

    paths = KubeletPaths(sockets)
    async with fake_kubelet(paths) as kubelet, serving([Things("one"), Things("other")], paths=paths):
        connections = [await kubelet.next_registration() for _ in range(2)]
        one = next(each for each in connections if each.registration.resource_name == "example.com/one")
        (paths.device_plugins / one.registration.endpoint).unlink()
        again = await kubelet.next_registration()
        assert again.registration.resource_name == "example.com/one"
        assert kubelet.unasked_registrations == 0


def shelves(root: Path) -> PluginSource:
    """A resource for each directory in ``root``, a device for each file in it."""

    @resources(watch=root)
    def find(root: Path) -> Iterator[DevicePlugin]:
        for path in sorted(root.iterdir()):
            yield DirectoryPlugin(f"example.com/{path.name}", path, env="S")

    return find


def put(root: Path, name: str, *files: str) -> None:
    """Make a shelf; it appears with its files on it."""
    being_made = root.parent / f"making-{name}"
    being_made.mkdir()
    for file in files:
        (being_made / file).touch()
    being_made.rename(root / name)


async def registered(kubelet: FakeKubelet, name: str, *devices: str) -> RegisteredPlugin:
    plugin = await kubelet.next_registration()
    assert plugin.registration.resource_name == f"example.com/{name}"
    await plugin.until_devices(*devices)
    return plugin


async def test_resources_appear_and_vanish_and_disturb_no_other(sockets: Path) -> None:
    paths, root = KubeletPaths(sockets), sockets / "shelves"
    async with fake_kubelet(paths) as kubelet, serving([shelves(root)], paths=paths):
        root.mkdir()
        put(root, "tea", "green")
        tea = await registered(kubelet, "tea", "green")
        put(root, "rum", "dark", "white")
        rum = await registered(kubelet, "rum", "dark", "white")
        shutil.rmtree(root / "rum")
        await rum.until_ended()
        put(root, "gin", "dry")
        gin = await registered(kubelet, "gin", "dry")
        await until_entries(
            paths.device_plugins, {"kubelet.sock", tea.registration.endpoint, gin.registration.endpoint}
        )
        (root / "tea" / "white").touch()
        await tea.until_devices("green", "white")  # still on its first stream
        assert kubelet.unasked_registrations == 0
        shutil.rmtree(root)
        await tea.until_ended()
        await gin.until_ended()


async def test_resource_that_comes_back_is_served_anew(sockets: Path) -> None:
    paths, root = KubeletPaths(sockets), sockets / "shelves"
    root.mkdir()
    async with fake_kubelet(paths) as kubelet, serving([shelves(root)], paths=paths):
        for number in range(3):
            put(root, "tea", f"t{number}")
            tea = await registered(kubelet, "tea", f"t{number}")
            shutil.rmtree(root / "tea")
            await tea.until_ended()


class Fixed(DevicePlugin):
    def __init__(self, name: str, device: str) -> None:
        self.resource_name = f"example.com/{name}"
        self._device = device

    def discover(self) -> list[Device]:
        return [Device(self._device)]


async def test_second_plugin_for_a_resource_is_refused_until_the_first_has_gone(
    sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = KubeletPaths(sockets)
    roots = [sockets / each for each in ("one", "other")]
    for root in roots:
        root.mkdir()
    put(roots[0], "tea", "green")
    async with fake_kubelet(paths) as kubelet, serving([shelves(root) for root in roots], paths=paths):
        first = await registered(kubelet, "tea", "green")
        put(roots[1], "tea", "black")
        put(roots[1], "gin", "dry")
        await registered(kubelet, "gin", "dry")
        assert kubelet.unasked_registrations == 0
        assert not first.ended.is_set()
        shutil.rmtree(roots[0] / "tea")
        await first.until_ended()
        await registered(kubelet, "tea", "black")
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors == ["example.com/tea: not served: two plugins serve example.com/tea; a kubelet takes only one"]


async def test_source_that_fails_leaves_all_as_it_was(sockets: Path, errors: Errors) -> None:
    paths, root = KubeletPaths(sockets), sockets / "shelves"
    root.mkdir()
    put(root, "tea", "green")
    async with fake_kubelet(paths) as kubelet, serving([shelves(root), Fixed("rum", "r")], paths=paths) as reload:
        plugins = [await kubelet.next_registration() for _ in range(2)]
        put(root, "not a name")
        put(root, "gin", "dry")
        error = await errors.next()
        reload()  # both register again
        plugins = [await kubelet.next_registration() for _ in range(2)]
        assert {each.registration.resource_name for each in plugins} == {"example.com/tea", "example.com/rum"}
        (root / "not a name").rmdir()
        await registered(kubelet, "gin", "dry")
        assert not any(each.ended.is_set() for each in plugins)
    assert errors.more == 0
    assert "looking for resources failed, all resources stay as they were: the ResourceName" in error


async def test_fifty_resources_come_and_go_at_once(sockets: Path) -> None:
    paths, root = KubeletPaths(sockets), sockets / "shelves"
    async with fake_kubelet(paths) as kubelet:
        gc.collect()  # what other tests have left open
        before, tasks = descriptors(), asyncio.all_tasks()
        async with serving([shelves(root), Fixed("rum", "r")], paths=paths):
            rum = await registered(kubelet, "rum", "r")
            root.mkdir()
            for number in range(COUNT):
                put(root, f"r{number}", "a")
            plugins = [await kubelet.next_registration() for _ in range(COUNT)]
            shutil.rmtree(root)
            for plugin in plugins:
                await plugin.until_ended()
            assert not rum.ended.is_set()
        await until_descriptors(before)
        assert not [task for task in asyncio.all_tasks() - tasks if task.get_name().startswith(("serve ", "follow "))]


class Scripted:
    """A source that says what the test says."""

    name = "scripted"
    members: Sequence[Member] = ()

    def __init__(self) -> None:
        self._changed: Callable[[], None] | None = None

    def refresh(self) -> None: ...

    async def run(self, watches: Watches, changed: Callable[[], None]) -> NoReturn:
        self._changed = changed
        while True:
            await asyncio.Event().wait()

    def say(self, members: Sequence[Member]) -> None:
        self.members = members
        if self._changed is not None:
            self._changed()


async def test_storm_of_changes_ends_with_what_was_wanted_last(sockets: Path) -> None:
    dice = random.Random(5)
    names = [f"r{number}" for number in range(6)]
    source, paths = Scripted(), KubeletPaths(sockets)
    async with fake_kubelet(paths) as kubelet, serving([source, Fixed("rum", "r")], paths=paths) as reload:
        rum = await registered(kubelet, "rum", "r")
        variants = {name: [Fixed(name, f"d{number}") for number in range(3)] for name in names}
        for _ in range(60):
            wanted = [dice.choice(variants[name]) for name in dice.sample(names, dice.randrange(len(names)))]
            source.say([*wanted, *dice.sample(wanted, len(wanted) // 2)])
            await asyncio.sleep(dice.random() / 50)  # anywhere in the lives of the last ones
        assert not rum.ended.is_set()
        reload()
        source.say([Fixed(name, "last") for name in names])
        served: dict[str, RegisteredPlugin] = {}
        async with asyncio.timeout(DEADLINE_S):
            while (
                sum(list(plugin.devices) == ["last"] for plugin in served.values()) < len(names)
                or rum.registration.resource_name not in served
            ):
                plugin = await kubelet.next_registration()
                served[plugin.registration.resource_name] = plugin
                await first(plugin.next_list(), plugin.ended.wait())  # it may be withdrawn already
        assert not any(plugin.ended.is_set() for plugin in served.values())
        await until_entries(
            paths.device_plugins, {"kubelet.sock", *(plugin.registration.endpoint for plugin in served.values())}
        )


async def test_source_may_be_asked_to_look_and_be_of_any_style(sockets: Path) -> None:
    names = ["tea"]

    @resources()
    async def find() -> AsyncIterator[DevicePlugin]:
        for name in names:
            yield Fixed(name, "d")

    paths = KubeletPaths(sockets)
    async with fake_kubelet(paths) as kubelet, serving([find], paths=paths):
        await registered(kubelet, "tea", "d")
        names.append("rum")
        await asyncio.to_thread(find.refresh)
        await registered(kubelet, "rum", "d")
    find.refresh()  # nobody listens, and nobody minds


async def test_process_may_end_when_no_source_finds_anything(sockets: Path) -> None:
    endings = Endings(if_none=IfNone.EXIT)
    async with asyncio.timeout(DEADLINE_S):
        await serve([shelves(sockets / "missing")], paths=KubeletPaths(sockets), endings=endings)


async def test_what_is_no_plugin_is_told(sockets: Path, errors: Errors) -> None:
    @resources()
    async def find() -> AsyncIterator[object]:
        yield ["a list"]
        await asyncio.Event().wait()

    async with fake_kubelet(KubeletPaths(sockets)) as kubelet:
        async with serving([find, Fixed("rum", "r")], paths=kubelet.paths):
            await registered(kubelet, "rum", "r")
            error = await errors.next()
    assert "no resource is served yet: cannot load a plugin from" in error
    assert "it gave ['a list'], which is not a plugin" in error
