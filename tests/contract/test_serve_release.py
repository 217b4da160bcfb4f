"""``plugbay serve --release --release-interval --state-directory``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plugbay.kernel.watch import watch_paths
from tests.contract.conftest import DEADLINE_S, Plugbay

PLUGIN = """
from plugbay import Device, DevicePlugin, ReleasePolicy

class Cleaner(DevicePlugin):
    resource_name = "example.com/gopher"
    release_policy = ReleasePolicy.{policy}

    def discover(self):
        return [Device("a")]

    def release(self, assignment):
        print("released", *assignment.units, flush=True)

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
