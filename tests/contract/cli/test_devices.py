"""``plugbay devices``: what plugins would offer, with no kubelet anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.conftest import Plugbay

CARDS = """
from plugbay import Device, DeviceNode, DevicePlugin, Replicas, health, unhealthy

class Cards(DevicePlugin):
    resource_name = "example.com/card"

    def set_up(self):
        self.names = ["card0", "card1"]

    def discover(self):
        yield Device("card0", numa_nodes=[1, 0], sharing=Replicas(2), capacity={"memory": "80Gi"})
        yield Device("card1", env={"CARD": "1"}, device_nodes=[DeviceNode("/dev/card1", container_path="/dev/c")])

    @health(isolate=True)
    def check(self, device):
        return unhealthy("Hot", "95 C") if device.id == self.names[1] else True
"""
BROKEN = """
from plugbay import DevicePlugin

class Broken(DevicePlugin):
    resource_name = "example.com/broken"

    def discover(self):
        raise OSError("no such bus")
"""


@pytest.fixture
def cards(sockets: Path) -> str:
    (sockets / "cards.py").write_text(CARDS)
    return str(sockets / "cards.py")


async def test_devices_are_set_up_found_and_checked(plugbay: Plugbay, cards: str) -> None:
    done = await plugbay("devices", cards)
    assert (done.code, done.err) == (0, "")
    assert done.rows == [
        ["example.com/card", "card0", "Healthy", "0,1", "2"],
        ["example.com/card", "card1", *"Unhealthy (Hot: 95 C); /dev/card1 does not exist <none> <none>".split()],
    ]


async def test_all_that_is_known_is_shown_as_json(plugbay: Plugbay, cards: str) -> None:
    done = await plugbay("devices", cards, "-o", "json")
    first, second = json.loads(done.out)["items"]
    assert first == {
        "resourceName": "example.com/card",
        "id": "card0",
        "name": "card0",
        "deviceIDs": ["card0::0", "card0::1"],
        "health": {"state": "Healthy", "reason": "", "message": ""},
        "numaNodes": [0, 1],
        "capacity": {"memory": "80Gi"},
    }
    assert second["health"] == {"state": "Unhealthy", "reason": "Hot", "message": "95 C"}
    assert second["deviceNodes"] == [{"containerPath": "/dev/c", "hostPath": "/dev/card1", "permissions": "rw"}]


async def test_plugin_that_fails_is_told_beside_the_others(plugbay: Plugbay, cards: str, sockets: Path) -> None:
    (sockets / "broken.py").write_text(BROKEN)
    done = await plugbay("devices", str(sockets / "broken.py"), cards)
    assert done.code == 1
    assert done.err == "plugbay: error: example.com/broken: discover() failed: OSError: no such bus (broken.py:8)\n"
    assert len(done.rows) == 2


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("5", "discover() gave 5 instead of a list of plugbay.Device values (x.py:2)"),
        ("Device('a')", "discover() gave one Device, a; put it in a list (x.py:2)"),
        ("['a']", "device 'a': discover() has to give plugbay.Device values"),
        ("[Device('a'), Device('a')]", "device ID 'a' occurs twice in one list (x.py:2)"),
        ("[Device(f'{n:063}') for n in range(60_000)]", "bytes"),
    ],
    ids=["number", "one-device", "texts", "twice", "too-many"],
)
async def test_what_no_kubelet_can_be_told_is_one_sentence(
    plugbay: Plugbay, sockets: Path, found: str, problem: str
) -> None:
    text = f"from plugbay import Device, plugin\n@plugin('example.com/x')\ndef x():\n    return {found}\n"
    (sockets / "x.py").write_text(text)
    done = await plugbay("devices", str(sockets / "x.py"))
    [line] = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert line.startswith("plugbay: error: example.com/x: discover() failed: ")
    assert problem in line


async def test_directory_that_is_not_there_holds_no_devices(plugbay: Plugbay, sockets: Path) -> None:
    options = ("--resource", "example.com/gopher", "--path", str(sockets / "gophers"), "--env", "Gopher")
    assert await plugbay("devices", "directory", *options) == (0, "", "No devices found.\n")
    done = await plugbay("devices", "directory")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("plugbay: error: `devices directory` needs --resource, --path, --env\n")
