"""Many resources in one process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from plugbay import Device, DevicePlugin
from plugbay.kubelet.paths import KubeletPaths
from plugbay.plugins.directory.plugin import DirectoryPlugin
from plugbay.sdk.runner import serving
from plugbay.testing.fake_kubelet import FakeKubelet, fake_kubelet

COUNT = 50


def descriptors() -> list[str]:
    """What our open files are, sockets aside: grpcio keeps some."""
    return sorted(
        target for target in _targets() if "socket:" not in target and "/proc/" not in target and "event" not in target
    )


def _targets() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            yield os.readlink(entry)
        except FileNotFoundError:  # that of this very look
            continue


async def all_register(kubelet: FakeKubelet) -> None:
    resources = set()
    for _ in range(COUNT):
        plugin = await kubelet.next_registration()
        await plugin.until_devices("a")
        resources.add(plugin.registration.resource_name)
    assert len(resources) == COUNT


async def test_fifty_resources_share_a_process_and_survive_a_kubelet(sockets: Path) -> None:
    paths = KubeletPaths(sockets)
    plugins: list[DevicePlugin] = []
    for number in range(COUNT):
        directory = sockets / f"d{number}"
        directory.mkdir()
        (directory / "a").touch()
        plugins.append(DirectoryPlugin(f"example.com/r{number}", directory, env="R"))
    async with fake_kubelet(paths) as kubelet:
        before = descriptors()
        async with serving(plugins, paths=paths):
            await all_register(kubelet)
            assert sum("inotify" in target for target in _targets()) == 1
            await kubelet.restart()
            await all_register(kubelet)
        assert descriptors() == before


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
