"""Scratch disks on a node: what one pod writes, no other one reads."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.errors import RpcFailed
from plugbay.kernel.loop import FileSlice, LoopDevices
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.ids import DeviceId
from plugbay.model.releases import OperationId, ReleaseReason
from plugbay.plugins.scratch.config import layout_of
from plugbay.plugins.scratch.plugin import scratch_plugins
from plugbay.sdk.process.runner import serving as serving_plugins
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.manager import GOPHER, bench
from tests.contract.rigs.manager import pod as pod_with_gopher
from tests.contract.rigs.stock_release import OTHERS, Pods, journal, until_files, until_kept

LOOPS = LoopDevices(Path("/dev"), Path("/sys"))
ON = ("--feature-gates", "DeviceManagerDeallocate=true")
SIZE = 1 << 20
DEADLINE_S = 30
SUCCEEDED = "--for=jsonpath={.status.phase}=Succeeded"
READY = "--for=condition=Ready"


def can_make_loop_devices() -> bool:
    try:
        LOOPS.check()
    except OSError:
        return False
    return os.geteuid() == 0


pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not can_make_loop_devices(), reason="needs root and /dev/loop-control"),
]


class Scratch:
    """A directory of disks, and the options to serve it with."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def options(self, *, count: int = 1, partitions: int = 0) -> tuple[str, ...]:
        options = ("--directory", str(self.directory), "--size", "1Mi", "--count", str(count))
        more = ("--partitions", str(partitions)) if partitions else ()
        return ("scratch", "--resource", "example.com/scratch", *options, *more)

    def attached(self) -> list[str]:
        return [loop.name for file in sorted(self.directory.glob("disk*")) for loop in LOOPS.of(file)]

    def content(self, disk: str = "disk0") -> bytes:
        return (self.directory / disk).read_bytes()


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    scratch = Scratch(tmp_path / "disks")
    yield scratch
    for file in scratch.directory.glob("disk*"):
        for loop in LOOPS.of(file):
            LOOPS.detach(loop)


@asynccontextmanager
async def serving(plugbay: Plugbay, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    async with plugbay.start("serve", *options, stderr=asyncio.subprocess.DEVNULL) as plugin:
        yield plugin
        if plugin.returncode is None:
            plugin.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert await plugin.wait() in (0, -signal.SIGKILL)


def pod(name: str, script: str, *, resource: str = "scratch", count: int = 1) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    command: [python3, -c, {script!r}]
    resources: {{limits: {{example.com/{resource}: {count}}}}}
"""


OPEN = (
    "import json, os; moved = json.loads(os.environ['PLUGBAY_MOUNTS']); "
    "disk = open(moved[os.environ['SCRATCH_DEVICES']], 'rb+', buffering=0); "
)
WRITE = OPEN + "disk.write(b'secret'.ljust(4096)); os.fsync(disk); print('written', flush=True)"
READ = OPEN + "print('dirty' if disk.read().strip(b'\\0') else 'clean')"


def until_there(path: Path) -> str:
    """Lines with which a pod waits for a file."""
    return f"import time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.05)\n"


async def run(plugbay: Plugbay, manifest: str, name: str) -> list[str]:
    """What a pod that ends by itself writes to its log."""
    assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
    waited = await plugbay("pod", "wait", SUCCEEDED, name)
    assert waited.code == 0, (await plugbay("pod", "describe", name)).out + (await plugbay("pod", "logs", name)).out
    return (await plugbay("pod", "logs", name)).out.splitlines()


async def test_second_pod_cannot_read_what_the_first_one_wrote(plugbay: Plugbay, scratch: Scratch) -> None:
    async with plugbay.node_up(*ON), serving(plugbay, *scratch.options()):
        assert await run(plugbay, pod("one", WRITE), "one") == ["written"]
        assert await run(plugbay, pod("two", READ), "two") == ["clean"]
    assert scratch.attached() == []
    assert scratch.content() == bytes(SIZE)


async def test_nor_without_the_calls_that_kubelets_lack(plugbay: Plugbay, scratch: Scratch) -> None:
    """The gate is off: nobody tells the plugin that the first pod has ended."""
    async with plugbay.node_up(), serving(plugbay, *scratch.options(), "--release-interval", "1h"):
        assert await run(plugbay, pod("one", WRITE), "one") == ["written"]
        assert b"secret" in scratch.content()
        assert await run(plugbay, pod("two", READ), "two") == ["clean"]


async def test_disk_is_wiped_soon_though_nobody_wants_it(plugbay: Plugbay, scratch: Scratch, tmp_path: Path) -> None:
    go, node = tmp_path / "go", scratch.directory / "nodes" / "disk0"
    async with plugbay.node_up(), serving(plugbay, *scratch.options(), "--release-interval", "500ms"):
        assert (await plugbay("pod", "apply", "-f", "-", given=pod("one", f"{WRITE}\n{until_there(go)}"))).code == 0
        await until_kept(journal(plugbay.root, "example.com/scratch"), "disk0")  # else its end is believed 10 s later
        go.touch()
        assert (await plugbay("pod", "wait", SUCCEEDED, "one")).code == 0
        await until_files([node], lambda: not node.exists())
        assert scratch.content() == bytes(SIZE)
        assert scratch.attached() == []


@pytest.mark.parametrize("gate", [ON, ()], ids=["called", "found-out"])
async def test_partitions_and_the_whole_disk_exclude_each_other(
    plugbay: Plugbay, scratch: Scratch, gate: tuple[str, ...]
) -> None:
    write = WRITE.replace("SCRATCH", "SCRATCH_PARTITION") + "; import time; time.sleep(1000)"
    options = (*scratch.options(partitions=2), "--release-interval", "500ms")
    async with plugbay.node_up(*gate), serving(plugbay, *options):
        held = pod("part", write, resource="scratch-partition")
        assert (await plugbay("pod", "apply", "-f", "-", given=held)).code == 0
        assert (await plugbay("pod", "wait", READY, "part")).code == 0
        assert scratch.attached() == ["disk0-p0"]
        assert (await plugbay("pod", "apply", "-f", "-", given=pod("whole", READ))).code == 0
        async with plugbay.start("events", "--for", "pod/whole", "-w") as events:
            await plugbay.line_with(events, "1 Insufficient example.com/scratch")
        assert (await plugbay("pod", "delete", "part")).code == 0
        assert (await plugbay("pod", "wait", SUCCEEDED, "whole")).code == 0
        assert (await plugbay("pod", "logs", "whole")).out == "clean\n"


async def test_plugin_that_is_killed_loses_nothing(plugbay: Plugbay, scratch: Scratch) -> None:
    """The pod goes on with what it wrote; when it ends, the next plugin process wipes and detaches."""
    stay = WRITE + "; import time; time.sleep(1000)"
    async with plugbay.node_up(*ON):
        async with serving(plugbay, *scratch.options()) as plugin:
            assert (await plugbay("pod", "apply", "-f", "-", given=pod("one", stay))).code == 0
            assert (await plugbay("pod", "wait", READY, "one")).code == 0
            async with plugbay.start("pod", "logs", "-f", "one") as follow:
                await plugbay.line_with(follow, "written")
            plugin.kill()
            await plugin.wait()
        assert (await plugbay("pod", "delete", "one", "--wait=false")).code == 0
        assert scratch.attached() == ["disk0"]
        assert b"secret" in scratch.content()
        async with serving(plugbay, *scratch.options()):
            assert await run(plugbay, pod("two", READ), "two") == ["clean"]
    assert scratch.attached() == []


async def test_nor_where_nobody_tells_of_the_end(scratch: Scratch, sockets: Path) -> None:
    """The pod ends while no plugin runs, on a stock kubelet; the next process finds out, though nobody asks."""
    disk, kept = scratch.directory / "nodes" / "disk0", sockets / "state" / "example.com_gopher.journal"
    often = ("--release-interval", "200ms", "--state-directory", str(kept.parent))
    plugbay = Plugbay(sockets)
    serve = ("scratch", "--resource", GOPHER, *scratch.options()[3:], *often)
    async with bench(sockets) as b:
        pods = Pods(OTHERS)
        async with serve_pod_resources(b.paths.pod_resources_socket, b.manager.pod_resources(), pods, clock=b.clock):
            async with serving(plugbay, *serve) as plugin:
                await b.counts(1, 1)
                await b.admit(pod_with_gopher("one"))
                disk.write_bytes(b"secret".ljust(4096))
                await until_kept(kept, "disk0")
                plugin.kill()
                await plugin.wait()
            assert scratch.attached() == ["disk0"]
            await b.release("one")
            async with serving(plugbay, *serve):
                await until_files([disk], lambda: not disk.exists())
                assert scratch.attached() == []
                assert scratch.content() == bytes(SIZE)


async def test_container_that_starts_again_finds_its_disk_wherever_it_is(
    plugbay: Plugbay, scratch: Scratch, tmp_path: Path
) -> None:
    """As after a reboot, when no loop device is left, and another file may get the number."""
    go, other = tmp_path / "go", tmp_path / "other"
    other.write_bytes(bytes(SIZE))
    script = "was = disk.read(6); disk.seek(0); disk.write(b'secret'.ljust(4096)); os.fsync(disk); disk.close(); "
    script += f"print('wrote', flush=True)\n{until_there(go)}import sys; sys.exit(0 if was == b'secret' else 1)"
    manifest = pod("one", OPEN + script).replace("Never", "OnFailure")
    async with plugbay.node_up(*ON), serving(plugbay, *scratch.options()):
        assert (await plugbay("pod", "apply", "-f", "-", given=manifest)).code == 0
        assert (await plugbay("pod", "wait", READY, "one")).code == 0
        async with plugbay.start("pod", "logs", "-f", "one") as follow:
            await plugbay.line_with(follow, "wrote")
        [loop] = LOOPS.of(scratch.directory / "disk0")
        LOOPS.detach(loop)
        taken = LOOPS.attach(FileSlice(other, 0, SIZE), name="other")
        try:
            go.touch()
            assert (await plugbay("pod", "wait", SUCCEEDED, "one")).code == 0
        finally:
            LOOPS.detach(taken)
    assert other.read_bytes() == bytes(SIZE)


async def test_other_uses_of_a_disk_are_not_offered_while_it_is_in_use(scratch: Scratch, sockets: Path) -> None:
    layout = layout_of("example.com/scratch", size="1Mi", count=2, partitions=2)
    paths, partitions = KubeletPaths(sockets), ("disk0-p0", "disk0-p1", "disk1-p0", "disk1-p1")
    plugins = scratch_plugins(layout, scratch.directory, LOOPS)
    async with fake_kubelet(paths) as kubelet, serving_plugins(plugins, paths=paths):
        served = [await kubelet.next_registration() for _ in plugins]
        whole, parts = sorted(served, key=lambda each: each.registration.resource_name)
        await whole.client.allocate([DeviceId("disk0")])
        await parts.until_devices(*partitions[2:])
        await parts.client.allocate([DeviceId("disk1-p0")])
        await whole.until_devices("disk0")
        with pytest.raises(RpcFailed, match=r"disk0 is in use as example\.com/scratch"):
            await parts.client.allocate([DeviceId("disk0-p1")])
        assert scratch.attached() == ["disk0", "disk1-p0"]
        await whole.client.deallocate([DeviceId("disk0")], OperationId("1"), ReleaseReason.POD_ENDED)
        await parts.until_devices(*partitions)
        await parts.client.deallocate([DeviceId("disk1-p0")], OperationId("2"), ReleaseReason.POD_ENDED)
        await whole.until_devices("disk0", "disk1")
    assert scratch.attached() == []


async def test_config_file_serves_scratch_too(plugbay: Plugbay, scratch: Scratch, tmp_path: Path) -> None:
    config = tmp_path / "plugins.yaml"
    settings = "{resource: example.com/scratch, directory: disks, size: 1Mi, count: 2, partitions: 4}"
    config.write_text(f"plugins:\n- {{target: scratch, settings: {settings}}}\n")
    done = await plugbay("devices", "--config", str(config))
    assert done.code == 0, done
    assert [row[:2] for row in done.rows][:3] == [
        ["example.com/scratch", "disk0"],
        ["example.com/scratch", "disk1"],
        ["example.com/scratch-partition", "disk0-p0"],
    ]
    assert len(done.rows) == 10
    assert not scratch.directory.exists()  # who only looks makes nothing


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(("--size", "5"), "size: 5 is not a multiple of 4096 bytes, such as 64Mi", id="size"),
        pytest.param(("--size", "x"), "size: ", id="no-size"),
        pytest.param(("--count", "0"), "count: 0 is not between 1 and 1000", id="count"),
        pytest.param(("--partitions", "129"), "partitions: 129 is not between 0 and 128", id="partitions"),
        pytest.param(("--resource", "scratch"), "the ResourceName", id="resource"),
        pytest.param(("--env", "X"), "only `serve directory` takes --env", id="option-of-another"),
        pytest.param(
            ("directory",), "`serve scratch` is one target, and several go into a config file", id="two-targets"
        ),
    ],
)
async def test_bad_options_are_one_sentence(
    plugbay: Plugbay, scratch: Scratch, options: tuple[str, ...], problem: str
) -> None:
    done = await plugbay("serve", *scratch.options(), *options)
    assert done.code != 0
    assert problem in done.err
    assert done.err.removesuffix("See 'plugbay serve scratch --help' for usage.\n").count("\n") == 1, done.err
    assert not scratch.directory.exists()


async def test_it_is_not_served_without_releases(plugbay: Plugbay, scratch: Scratch) -> None:
    """They are what keeps a disk from being handed out as somebody left it."""
    done = await plugbay("serve", *scratch.options(), "--release", "off")
    problem = "example.com/scratch: its devices are given clean or not at all; release cannot be off"
    assert (done.code, done.err) == (2, f"plugbay: error: {problem}\n")


async def test_directory_of_others_is_left_alone(plugbay: Plugbay, scratch: Scratch) -> None:
    scratch.directory.mkdir()
    (scratch.directory / "disk0").write_bytes(b"somebody's")
    done = await plugbay("serve", *scratch.options())
    assert (done.code, done.err) == (
        1, f"plugbay: error: {scratch.directory}: holds 'disk0'; scratch disks need a directory of their own\n"
    )  # fmt: skip
    assert scratch.content() == b"somebody's"
