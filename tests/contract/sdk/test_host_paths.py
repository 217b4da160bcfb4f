"""Paths of the host that devices name and that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from plugbay import Device, DeviceNode, Mount
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.logs import Log, log
from tests.contract.rigs.serving import NAME, Things, paths, serving

__all__ = ["log", "paths"]


def things(*missing: Path) -> Things:
    made = Things()
    nodes = [DeviceNode(path) for path in missing]
    made.devices = [Device("a", device_nodes=nodes, mounts=[Mount("/etc")]), Device("b", mounts=[Mount("/etc")])]
    return made


async def test_missing_paths_are_logged_once_and_the_device_is_offered(
    paths: KubeletPaths, log: Log, tmp_path: Path
) -> None:
    made = things(tmp_path / "node")
    async with fake_kubelet(paths) as kubelet, serving(made, paths.root):
        plugin = await kubelet.next_registration()
        await plugin.next_list()
        assert [device.health for device in plugin.devices.values()] == ["Healthy", "Healthy"]
        sentence = f"{NAME}: device a: missing where the plugin runs: {tmp_path / 'node'}; "
        await log.seen(sentence)
        made.devices = [*made.devices, Device("c")]
        made.refresh()
        await plugin.until_devices("a", "b", "c")
        assert len([line for line in log.lines if line.startswith(sentence)]) == 1
        (tmp_path / "node").touch()
        made.refresh()
        await log.seen(f"{NAME}: all paths of device a exist now")


async def test_a_method_that_is_nearly_called_like_a_hook_is_named_once(paths: KubeletPaths, log: Log) -> None:
    class Typing(Things):
        def relaese(self) -> None: ...

    async with fake_kubelet(paths) as kubelet, serving(Typing(), paths.root):
        await kubelet.next_registration()
        sentence = f"{NAME}: relaese() is never called; did you mean release()?"
        assert [line for line in log.lines if "relaese" in line] == [sentence]


async def test_a_device_is_unhealthy_until_its_paths_exist_if_its_author_wants_so(
    paths: KubeletPaths, log: Log, tmp_path: Path
) -> None:
    made = things(tmp_path / "dev" / "node")
    made.check_paths = True
    async with fake_kubelet(paths) as kubelet, serving(made, paths.root):
        plugin = await kubelet.next_registration()
        await plugin.next_list()
        assert [device.health for device in plugin.devices.values()] == ["Unhealthy", "Healthy"]
        await log.seen(f"new device a, Unhealthy (HostPathMissing: {tmp_path / 'dev' / 'node'} does not exist)")
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev" / "node").touch()
        await log.seen(f"{NAME}: device a is Healthy")
        (tmp_path / "dev" / "node").unlink()
        await log.seen(f"{NAME}: device a is Unhealthy (HostPathMissing: {tmp_path / 'dev' / 'node'} does not exist)")


@pytest.mark.parametrize("checks", [False, True])
async def test_devices_marks_them(plugbay: Plugbay, tmp_path: Path, checks: bool) -> None:
    file = tmp_path / "cards.py"
    file.write_text(f"""
from plugbay import Device, DeviceNode, plugin
@plugin("example.com/card", check_paths={checks})
def cards():
    yield Device("a", device_nodes=[DeviceNode("/dev/nope")])
    yield Device("b", device_nodes=[DeviceNode("/dev/null")])
""")
    done = await plugbay("devices", str(file))
    mark = "Unhealthy (HostPathMissing: /dev/nope does not exist)" if checks else "Healthy; /dev/nope does not exist"
    assert [" ".join(row[2:-2]) for row in done.rows] == [mark, "Healthy"]
    listed = yaml.safe_load((await plugbay("devices", str(file), "-o", "yaml")).out)["items"]
    assert [each.get("missingPaths") for each in listed] == [["/dev/nope"], None]
