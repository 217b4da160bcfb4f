"""The author's hooks around serving, and how a process ends when it is told to be strict."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from plugbay import Device, DevicePlugin
from plugbay.errors import RegistrationRefused
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.process.endings import Endings, IfNone, OnRefusal
from plugbay.sdk.process.runner import serve, serving
from plugbay.testing.fakes.kubelet import fake_kubelet

DEADLINE_S = 30


class Things(DevicePlugin):
    resource_name = "example.com/thing"

    def __init__(self) -> None:
        self.steps: list[str] = []

    def discover(self) -> Iterable[Device]:
        self.steps.append("discover")
        return [Device("a")]


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


async def test_set_up_comes_first_and_is_tried_again(paths: KubeletPaths, caplog: pytest.LogCaptureFixture) -> None:
    class Prepared(Things):
        def set_up(self) -> None:
            self.steps.append("set up")
            if self.steps.count("set up") < 3:
                raise OSError("no driver")

        async def tear_down(self) -> None:
            self.steps.append("tear down")

    prepared = Prepared()
    async with fake_kubelet(paths) as kubelet:
        async with serving([prepared], paths=paths):
            plugin = await kubelet.next_registration()
            await plugin.until_devices("a")
        await plugin.until_ended()
    assert prepared.steps == ["set up", "set up", "set up", "discover", "tear down"]
    told = "example.com/thing: set_up() failed and is tried again: OSError: no driver (test_lifecycle.py:"
    assert len([record for record in caplog.records if record.getMessage().startswith(told)]) == 1


async def test_set_up_that_takes_long_disturbs_nobody_and_can_be_given_up(paths: KubeletPaths) -> None:
    gate = threading.Event()

    class Slow(Things):
        resource_name = "example.com/slow"

        def set_up(self) -> None:
            gate.wait(DEADLINE_S)

        def tear_down(self) -> None:
            self.steps.append("tear down")

    slow = Slow()
    async with fake_kubelet(paths) as kubelet:
        async with serving([slow, Things()], paths=paths):
            assert (await kubelet.next_registration()).registration.resource_name == "example.com/thing"
        gate.set()
    assert slow.steps == [], "what was not set up is not torn down"


async def test_failing_tear_down_is_logged(paths: KubeletPaths, caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Things):
        def tear_down(self) -> None:
            raise OSError("stuck")

    async with fake_kubelet(paths) as kubelet, serving([Clumsy()], paths=paths):
        await kubelet.next_registration()
    told = "example.com/thing: tear_down() failed: OSError: stuck (test_lifecycle.py:"
    assert any(record.getMessage().startswith(told) for record in caplog.records)


# --- ends that are asked for ----------------------------------------------------------------------------------------


async def test_refusal_is_the_end_when_asked_for(paths: KubeletPaths) -> None:
    class Other(Things):
        resource_name = "example.com/other"

    async with fake_kubelet(paths) as kubelet:
        kubelet.refusal = "not you"
        with pytest.raises(RegistrationRefused, match=r"^example\.com/(thing|other): registration refused: not you$"):
            async with asyncio.timeout(DEADLINE_S):
                await serve([Things(), Other()], paths=paths, endings=Endings(on_refusal=OnRefusal.EXIT))
    assert [entry.name for entry in paths.device_plugins.iterdir()] == []


async def test_kubelet_that_is_not_there_is_no_refusal(paths: KubeletPaths) -> None:
    endings = Endings(on_refusal=OnRefusal.EXIT, if_none=IfNone.EXIT)
    paths.device_plugins.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.registration_socket))
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve([Things()], paths=paths, endings=endings))
        async with fake_kubelet(paths) as kubelet:
            await (await kubelet.next_registration()).until_devices("a")
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(serving, DEADLINE_S)


async def test_no_device_is_the_end_when_asked_for(paths: KubeletPaths) -> None:
    class Empty(Things):
        def discover(self) -> Iterable[Device]:
            return []

    class Failing(Empty):
        resource_name = "example.com/failing"
        looks = 0

        def discover(self) -> Iterable[Device]:
            self.looks += 1
            if self.looks == 1:
                raise OSError("no driver yet")
            return []

    failing = Failing()
    async with fake_kubelet(paths), asyncio.timeout(DEADLINE_S):
        await serve([Empty(), failing], paths=paths, endings=Endings(if_none=IfNone.EXIT))
    assert failing.looks == 2, "what cannot look does not know that there is none"


@pytest.mark.parametrize(
    ("flag", "files", "code", "said"),
    [("--exit-if-none", (), 0, "no plugin found a device"), ("--exit-on-refusal", ("g1",), 1, "refused: not you")],
)
async def test_command_ends_as_its_flag_says(
    paths: KubeletPaths, flag: str, files: tuple[str, ...], code: int, said: str
) -> None:
    for name in files:
        (paths.root / name).touch()
    async with fake_kubelet(paths) as kubelet:
        kubelet.refusal = "not you"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "plugbay", "--root", str(paths.root), "serve", "directory", flag),
            *("--resource", "example.com/gopher", "--path", str(paths.root), "--env", "Gopher"),
            stderr=asyncio.subprocess.PIPE,
        )
        _, log = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == code
    assert said in log.decode().splitlines()[-1]
    assert "Traceback" not in log.decode()
