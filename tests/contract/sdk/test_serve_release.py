"""``plugbay serve --release --release-interval --state-directory``, and what ``/status`` tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from plugbay.kernel.watch import watch_paths
from plugbay.manager.checkpoint.view import RETRY_S
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.ops.http_client import UnixHttpClient
from tests.contract.conftest import DEADLINE_S, Plugbay
from tests.contract.rigs.manager import Bench, bench, pod
from tests.contract.rigs.release import ON
from tests.contract.rigs.stock_release import OTHERS, Pods

PLUGIN = """
from plugbay import Device, DevicePlugin, ReleasePolicy

class Cleaner(DevicePlugin):
    resource_name = "example.com/gopher"
    release_policy = ReleasePolicy.{policy}

    def discover(self):
        return [Device("a")]

    def release(self, assignment):
        print("released", *assignment.units, assignment.origin.value, flush=True)

gophers = Cleaner()
"""


@pytest.fixture
def cleaner(tmp_path: Path) -> Path:
    (tmp_path / "cleaner.py").write_text(PLUGIN.format(policy="STRICT"))
    return tmp_path / "cleaner.py"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(("--release", "never"), '"never" is not known; choose from auto, kubelet', id="source"),
        pytest.param(("--release-interval", "often"), "a time such as 30s or 1h30m, found 'often'", id="no-time"),
        pytest.param(("--release-interval", "0"), "a time of 100ms or more, found '0'", id="no-rest"),
        pytest.param(("--release-interval=-1s",), "a time of 100ms or more, found '-1s'", id="backwards"),
    ],
)
async def test_bad_value_is_one_sentence(
    plugbay: Plugbay, cleaner: Path, options: tuple[str, ...], problem: str
) -> None:
    done = await plugbay("serve", str(cleaner), *options)
    assert done.code == 2
    sentence, hint = done.err.splitlines()
    assert problem in sentence
    assert hint == "See 'plugbay serve --help' for usage."


async def test_plugin_that_insists_is_not_served_without_releases(plugbay: Plugbay, cleaner: Path) -> None:
    done = await plugbay("serve", str(cleaner), "--release", "off")
    assert done.code == 2
    [sentence] = done.err.splitlines()
    assert sentence.endswith("example.com/gopher: its devices are given clean or not at all; release cannot be off")


async def test_journal_is_kept_where_it_was_told(plugbay: Plugbay, cleaner: Path, tmp_path: Path) -> None:
    journal = tmp_path / "state" / "example.com_gopher.journal"
    async with plugbay.start("serve", str(cleaner), "--state-directory", str(journal.parent)) as serving:
        async with asyncio.timeout(DEADLINE_S), watch_paths([journal]) as changes:
            while not journal.exists():
                await anext(changes)
        serving.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert await serving.wait() == 0


async def test_directory_that_cannot_be_one_is_said_once(plugbay: Plugbay, cleaner: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    pipe = asyncio.subprocess.PIPE
    async with plugbay.start(
        "serve", str(cleaner), "--state-directory", str(tmp_path / "file"), stderr=pipe
    ) as serving:
        assert serving.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            while b"cannot keep which devices are in use" not in (line := await serving.stderr.readline()):
                assert line, "it ended"
        (tmp_path / "file").unlink()
        async with asyncio.timeout(DEADLINE_S), watch_paths([tmp_path / "file"]) as changes:
            while not (tmp_path / "file").is_dir():
                await anext(changes)
        serving.terminate()
        async with asyncio.timeout(DEADLINE_S):
            assert b"cannot keep" not in await serving.stderr.read()
            assert await serving.wait() == 0


# --- with a manager -------------------------------------------------------------------------------------------------


@dataclass
class Served:
    """The command, as it serves the cleaner to a manager."""

    manager: Bench
    process: asyncio.subprocess.Process
    pages: UnixHttpClient

    async def release(self) -> dict[str, Any]:
        """What ``/status`` says of releases."""
        answer = await asyncio.to_thread(self.pages.request, "GET", "/status")
        [resource] = cast("dict[str, Any]", answer.json())["resources"]
        return cast("dict[str, Any]", resource["release"])

    async def release_once(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            while not wanted(found := await self.release()):  # noqa: ASYNC110  # as an operator looks, whom nobody tells
                await asyncio.sleep(0.02)
        return found

    async def said(self) -> str:
        """Its next line of output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            return (await self.process.stdout.readline()).decode().strip()

    async def output(self) -> str:
        """All that it has still to say."""
        self.process.terminate()
        async with asyncio.timeout(DEADLINE_S):
            return (await self.process.communicate())[0].decode()


def put_a_directory(path: Path) -> None:
    """In the place of a file that its writer may put there again at any moment; the writer cannot do so any more."""
    while not path.is_dir():
        path.unlink(missing_ok=True)
        with suppress(FileExistsError):
            path.mkdir()


@asynccontextmanager
async def serving(plugbay: Plugbay, cleaner: Path, *options: str, **settings: Any) -> AsyncIterator[Served]:
    pages = plugbay.root / "pages.sock"
    metrics = ("--metrics", f"unix:{pages}")
    async with (
        bench(plugbay.root, **settings) as b,
        serve_pod_resources(
            b.paths.pod_resources_socket, b.manager.pod_resources(), Pods(OTHERS, pod("p")), clock=b.clock
        ),
        plugbay.start("serve", str(cleaner), *metrics, *options, stderr=asyncio.subprocess.DEVNULL) as process,
    ):
        await b.counts(1, 1)
        yield Served(b, process, UnixHttpClient(pages, timeout_s=DEADLINE_S))


async def test_status_from_allocate_to_release(plugbay: Plugbay, cleaner: Path) -> None:
    async with serving(plugbay, cleaner, "--release-interval", "100ms") as served:
        before = await served.release()
        journal = plugbay.root / "device-plugins" / ".plugbay" / "example.com_gopher.journal"
        assert before == {
            "source": "auto",
            "synthesised": True,
            "policy": "strict",
            "intervalSeconds": 0.1,
            "journal": str(journal),
            "isOurs": True,
            "lastReading": None,
            "podResources": "",
            "open": [],
        }
        await served.manager.admit(pod("p"))
        named = await served.release_once(
            lambda said: [use["waitsFor"] for use in said["open"] if use["owners"]] == ["its pod to end"]
        )
        assert named["lastReading"]["time"].endswith("Z")
        [use] = named["open"]
        assert use["deviceIDs"] == ["a"]
        assert use["phase"] == "open"
        owner = {"namespace": "default", "pod": "p", "container": "app", "uid": "p"}
        assert use["owners"] == [owner]
        put_a_directory(served.manager.paths.checkpoint)
        await served.manager.clock.until_asleep(RETRY_S)  # after the first that failed
        waiting = await served.release_once(
            lambda said: said["open"][0]["waitsFor"].startswith("a checkpoint of the kubelet: ")
        )
        assert waiting["lastReading"]["problem"]
        served.manager.paths.checkpoint.rmdir()
        await served.manager.clock.sleep_through(RETRY_S)
        await served.manager.release("p")
        assert await served.said() == "released a synthesised"
        await served.release_once(lambda said: said["open"] == [])


@pytest.mark.parametrize(
    ("source", "origin"),
    [("kubelet", "kubelet"), ("synthesised", "synthesised")],
)
async def test_source_decides_who_says_that_a_use_is_over(
    plugbay: Plugbay, cleaner: Path, source: str, origin: str
) -> None:
    """With a manager that would call."""
    options = ("--release", source, "--release-interval", "100ms")
    async with serving(plugbay, cleaner, *options, gates=ON) as served:
        status = await served.release()
        assert (status["source"], status["synthesised"]) == (source, origin == "synthesised")
        await served.manager.admit(pod("p"))
        waits_for = "its pod to end" if origin == "synthesised" else "the kubelet to call Deallocate"
        await served.release_once(lambda said: [use["waitsFor"] for use in said["open"]] == [waits_for])
        await served.manager.release("p")
        assert await served.said() == f"released a {origin}"


@pytest.mark.parametrize("source", ["kubelet", "off"])
async def test_kubelet_that_never_calls_hears_no_guess(plugbay: Plugbay, tmp_path: Path, source: str) -> None:
    """A plugin that does not insist is given its device as it is."""
    (tmp_path / "lazy.py").write_text(PLUGIN.format(policy="LAZY"))
    async with serving(plugbay, tmp_path / "lazy.py", "--release", source, "--release-interval", "100ms") as served:
        for uid in ("p", "q"):
            await served.manager.admit(pod(uid))
            await served.manager.release(uid)
        assert await served.output() == ""
