"""What plugins in the field get wrong, against a scripted kubelet over real sockets."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay import ContainerEdits, Device, DevicePlugin, Modes, Mount
from plugbay.errors import PathTooLong, PathUnusable, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.sdk.process.runner import serving
from plugbay.sdk.serving import keeper
from plugbay.testing.fakes.kubelet import FakeKubelet, fake_kubelet

NAME = "example.com/thing"
DEADLINE_S = 30


class Things(DevicePlugin):
    """A plugin whose devices a test sets."""

    resource_name = NAME

    def __init__(self, *names: str) -> None:
        self.devices = [Device(name) for name in names]

    def discover(self) -> Iterable[Device]:
        return self.devices


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@asynccontextmanager
async def served(*plugins: DevicePlugin, paths: KubeletPaths) -> AsyncIterator[FakeKubelet]:
    async with fake_kubelet(paths) as kubelet, serving(plugins, paths=paths):
        yield kubelet


def own_sockets(paths: KubeletPaths) -> list[str]:
    return [entry.name for entry in paths.device_plugins.iterdir() if entry.name != "kubelet.sock"]


async def test_old_stream_ends_before_a_new_registration(paths: KubeletPaths) -> None:
    """Kubelet 1.37 refuses a second registration while the first is connected; 1.36 later confuses the two."""
    async with fake_kubelet(paths) as kubelet, serving([Things("a")], paths=paths) as reload:
        first = await kubelet.next_registration()
        await first.until_devices("a")
        reload()
        await kubelet.next_registration()
        await first.until_ended()


async def test_kubelet_that_hangs_up_at_once_is_not_stormed(paths: KubeletPaths) -> None:
    async with served(Things("a"), paths=paths) as kubelet:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(6):
            await (await kubelet.next_registration()).until_devices("a")
            kubelet.hang_up()
        # The delays double from 50 ms, halved at worst by jitter: five of them make 775 ms at least.
        assert loop.time() - began > 0.75


async def test_kubelet_that_never_asks_for_the_list_is_asked_again(
    paths: KubeletPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "STREAM_PATIENCE_S", 0.05)
    async with fake_kubelet(paths) as kubelet:
        kubelet.follows_lists = False
        async with serving([Things("a")], paths=paths):
            for _ in range(2):
                await kubelet.next_attempt()
            kubelet.follows_lists = True
            monkeypatch.setattr(keeper, "STREAM_PATIENCE_S", DEADLINE_S)  # which a busy kubelet may need
            await kubelet.next_registration()
            await (await kubelet.next_registration()).until_devices("a")


async def test_plugin_registers_once_with_a_kubelet_that_stays(paths: KubeletPaths) -> None:
    things = Things("a")
    async with served(things, paths=paths) as kubelet:
        plugin = await kubelet.next_registration()
        for count in range(2, 6):
            things.devices = [Device(f"d{number}") for number in range(count)]
            things.refresh()
            await plugin.until_devices(*(device.id for device in things.devices))
        assert len(kubelet.attempts) == 1


async def test_plugin_without_a_list_does_not_register(paths: KubeletPaths) -> None:
    class Stuck(Things):
        resource_name = "example.com/stuck"
        driver_is_up = False

        def discover(self) -> Iterable[Device]:
            if not self.driver_is_up:
                raise OSError("no driver")
            return super().discover()

    stuck = Stuck("s")
    async with served(stuck, Things("a"), paths=paths) as kubelet:
        plugin = await kubelet.next_registration()
        assert plugin.registration.resource_name == NAME
        stuck.driver_is_up = True
        plugin = await kubelet.next_registration()
        assert plugin.registration.resource_name == "example.com/stuck"
        assert await plugin.next_list() == ("s",), "its first list is not an empty one"


async def test_refresh_works_from_any_thread(paths: KubeletPaths) -> None:
    things = Things("a")
    async with served(things, paths=paths) as kubelet:
        plugin = await kubelet.next_registration()
        await plugin.until_devices("a")
        things.devices = [Device("b")]
        thread = threading.Thread(target=things.refresh)
        thread.start()
        await plugin.until_devices("b")
        thread.join()
    things.refresh()  # not served any more: nothing happens


async def test_directory_may_appear_vanish_and_appear_again(paths: KubeletPaths) -> None:
    async with serving([Things("a")], paths=paths):
        for _ in range(3):
            async with fake_kubelet(paths) as kubelet:
                await (await kubelet.next_registration()).until_devices("a")
            for entry in paths.device_plugins.iterdir():
                entry.unlink(missing_ok=True)
            paths.device_plugins.rmdir()


async def test_socket_of_a_dead_kubelet_is_waited_out(paths: KubeletPaths) -> None:
    paths.device_plugins.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(paths.registration_socket))
    async with serving([Things("a")], paths=paths), fake_kubelet(paths) as kubelet:
        await (await kubelet.next_registration()).until_devices("a")


async def test_live_socket_of_the_same_resource_is_left_alone(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet:
        alive = paths.device_plugins / "example.com_thing-0123abcd.sock"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(alive))
            other.listen()
            async with serving([Things("a")], paths=paths):
                await kubelet.next_registration()
                assert alive.exists()
        alive.unlink()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "None instead of ContainerEdits"),
        ({"ENV": "x"}, ".* instead of ContainerEdits"),
        (ContainerEdits(env={"ENV": 5}), "what no kubelet can pass on: 'ENV' is not usable"),  # type: ignore[dict-item]
        (
            ContainerEdits(mounts=(Mount("h", container_path="/c"),)),
            "what no kubelet can pass on: path 'h' is not absolute",
        ),
        (ContainerEdits(cdi_devices="a/b=c"), "what no kubelet can pass on: cdi_devices 'a/b=c' is not a list"),
    ],
)
async def test_allocate_must_give_edits(paths: KubeletPaths, answer: object, problem: str) -> None:
    """Else nothing is taken: a mode would be in use, of which no kubelet knows."""

    class Wrong(Things):
        modes = Modes(hardware_of=lambda device: device.id)

        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            return answer  # type: ignore[return-value]  # as authors without a type checker do

    async with served(Wrong("a"), paths=paths) as kubelet:
        client = (await kubelet.next_registration()).client
        with pytest.raises(RpcFailed, match=rf"example.com/thing: allocate\(a\) gave {problem}"):
            await client.allocate([DeviceId("a")])
        assert not Wrong.modes.mode(Wrong.resource_name).used


@pytest.mark.parametrize("answer", [None, ["a"]])
async def test_preference_must_be_of_devices(paths: KubeletPaths, answer: object) -> None:
    class Wrong(Things):
        def preferred_allocation(
            self, available: Sequence[Device], must_include: Sequence[Device], size: int
        ) -> Sequence[Device]:
            return answer  # type: ignore[return-value]  # as authors without a type checker do

    async with served(Wrong("a"), paths=paths) as kubelet:
        client = (await kubelet.next_registration()).client
        with pytest.raises(RpcFailed, match=r"preferred_allocation\(a\) gave .* instead of devices"):
            await client.preferred_allocation([DeviceId("a")], [], 1)


async def test_hook_that_exits_ends_its_call_only(paths: KubeletPaths) -> None:
    class Exiting(Things):
        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            sys.exit("no")

    async with served(Exiting("a"), paths=paths) as kubelet:
        client = (await kubelet.next_registration()).client
        for _ in range(2):
            with pytest.raises(RpcFailed, match="SystemExit: no"):
                await client.allocate([DeviceId("a")])


async def test_list_too_large_for_a_kubelet_is_not_sent(paths: KubeletPaths) -> None:
    things = Things("a")
    async with served(things, paths=paths) as kubelet, listening_to_logs() as refused:
        plugin = await kubelet.next_registration()
        await plugin.until_devices("a")
        things.devices = [Device(f"{number:063}") for number in range(60_000)]
        things.refresh()
        await refused.wait_for("kubelets take 4194304")
        assert await plugin.client.allocate([DeviceId("a")]) is not None


class Lines(logging.Handler):
    """Lets a test wait for a line of the log."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put_nowait(record.getMessage())

    async def wait_for(self, text: str) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while text not in await self._lines.get():
                pass


@asynccontextmanager
async def listening_to_logs() -> AsyncIterator[Lines]:
    lines = Lines()
    logging.getLogger("plugbay").addHandler(lines)
    try:
        yield lines
    finally:
        logging.getLogger("plugbay").removeHandler(lines)


# --- what can never work is said at once ----------------------------------------------------------------------------


async def test_root_that_is_a_file_is_refused(paths: KubeletPaths) -> None:
    (paths.root / "file").touch()
    with pytest.raises(PathUnusable, match="file: is not a directory"):
        async with serving([Things()], paths=KubeletPaths(paths.root / "file")):
            pass


async def test_root_too_deep_for_sockets_is_refused(paths: KubeletPaths) -> None:
    with pytest.raises(PathTooLong, match="unix sockets end at 107"):
        async with serving([Things()], paths=KubeletPaths(paths.root / ("x" * 100))):
            pass


# --- the process ----------------------------------------------------------------------------------------------------

HANGING = """
import threading

from plugbay import Device, DevicePlugin

class Hanging(DevicePlugin):
    resource_name = "example.com/hanging"
    looks = 0
    every = 0.01

    def discover(self):
        self.looks += 1
        if self.looks > 1:
            print("hanging", flush=True)
            threading.Event().wait()
        return [Device("h")]
"""


async def test_process_ends_although_a_hook_hangs(paths: KubeletPaths) -> None:
    target = paths.root / "hanging.py"
    target.write_text(HANGING)
    async with fake_kubelet(paths) as kubelet, process("serve", str(target), paths=paths) as served_process:
        await (await kubelet.next_registration()).until_devices("h")
        assert served_process.stdout is not None
        assert await asyncio.wait_for(served_process.stdout.readline(), DEADLINE_S) == b"hanging\n"
        served_process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(served_process.wait(), DEADLINE_S) == 0
        assert own_sockets(paths) == []


@asynccontextmanager
async def process(*arguments: str, paths: KubeletPaths) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(paths.root), *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()
