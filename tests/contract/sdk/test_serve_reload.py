"""``serve --reload``: what an author writes is what is served."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import FakeKubelet, fake_kubelet
from tests.contract.conftest import Plugbay

DEADLINE_S = 30
CODE = """
from plugbay import Device, plugin
{imports}

@plugin("example.com/x")
def x():
    return [Device({device})]
"""


def write(file: Path, device: str, imports: str = "") -> None:
    file.write_text(CODE.format(device=device, imports=imports))


class Served:
    def __init__(self, kubelet: FakeKubelet, process: asyncio.subprocess.Process, plugbay: Plugbay) -> None:
        self.kubelet = kubelet
        self._process = process
        self._plugbay = plugbay

    async def until_served(self, *devices: str) -> None:
        await (await self.kubelet.next_registration()).until_devices(*devices)

    async def until_logged(self, text: str) -> str:
        return await self._plugbay.line_with(self._process, text)


@asynccontextmanager
async def serving(plugbay: Plugbay, target: str, cwd: Path) -> AsyncIterator[Served]:
    argv = (sys.executable, "-m", "plugbay", "--root", str(plugbay.root), "serve", "--reload", target)
    pipe = asyncio.subprocess.PIPE
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        process = await asyncio.create_subprocess_exec(*argv, cwd=cwd, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
        try:
            yield Served(kubelet, process, plugbay)
            process.terminate()
            out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
            assert (process.returncode, b"Traceback" in out) == (0, False), out
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def test_code_that_changes_is_served_anew(plugbay: Plugbay, tmp_path: Path) -> None:
    write(tmp_path / "p.py", "'a'")
    async with serving(plugbay, "p.py", tmp_path) as served:
        await served.until_served("a")
        for device in "bcd":  # files of one size, within a second
            write(tmp_path / "p.py", f"'{device}'")
            await served.until_served(device)
        await served.until_logged("p.py: p.py changed; serving the new code")
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize("helper", ["helper.py", "package/__init__.py", "package/deep.py"])
async def test_a_module_beside_it_that_changes_is_served_anew(plugbay: Plugbay, tmp_path: Path, helper: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / helper).write_text("NAME = 'a'\n")
    module = helper.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    write(tmp_path / "p.py", "NAME", f"from {module} import NAME")
    async with serving(plugbay, "p.py:x", tmp_path) as served:
        await served.until_served("a")
        (tmp_path / "new").write_text("NAME = 'b'\n")
        (tmp_path / "new").rename(tmp_path / helper)
        await served.until_served("b")


async def test_a_module_is_followed_as_a_file_is(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards/__init__.py").touch()
    write(tmp_path / "cards/plugins.py", "'a'")
    async with serving(plugbay, "cards.plugins:x", tmp_path) as served:
        await served.until_served("a")
        write(tmp_path / "cards/plugins.py", "'b'")
        await served.until_served("b")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        pytest.param("from plugbay import plugin\n\ndef x(:\n", "p.py:3: SyntaxError: ", id="syntax"),
        pytest.param("x = 1\n\n1 / 0\n", "p.py:3: ZeroDivisionError: ", id="fails"),
        pytest.param("x = 1\n", "p.py: it defines no plugin", id="no-plugin"),
        pytest.param("import helper\n", "helper.py:1: SyntaxError: ", id="beside"),
    ],
)
async def test_code_that_cannot_be_loaded_is_waited_for(
    plugbay: Plugbay, tmp_path: Path, broken: str, said: str
) -> None:
    (tmp_path / "helper.py").write_text("def (\n")
    write(tmp_path / "p.py", "'a'")
    async with serving(plugbay, "p.py", tmp_path) as served:
        plugin = await served.kubelet.next_registration()
        await plugin.until_devices("a")
        (tmp_path / "p.py").write_text(broken)
        assert said in await served.until_logged("the code before goes on until the file changes")
        assert not plugin.ended.is_set(), "its stream goes on"
        write(tmp_path / "p.py", "'b'")
        await served.until_served("b")


async def test_code_that_cannot_be_loaded_at_first_is_waited_for(plugbay: Plugbay, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("def x(:\n")
    async with serving(plugbay, "p.py", tmp_path) as served:
        assert "p.py:1: SyntaxError: " in await served.until_logged("nothing is served until the file changes")
        write(tmp_path / "p.py", "'a'")
        await served.until_served("a")


async def test_another_file_that_changes_disturbs_nothing(plugbay: Plugbay, tmp_path: Path) -> None:
    write(tmp_path / "p.py", "'a'")
    async with serving(plugbay, "p.py", tmp_path) as served:
        plugin = await served.kubelet.next_registration()
        await plugin.until_devices("a")
        (tmp_path / "data.txt").write_text("x")
        write(tmp_path / "p.py", "'b'")
        await served.until_served("b")
        assert served.kubelet.unasked_registrations == 0


async def test_only_code_is_reloaded(plugbay: Plugbay, tmp_path: Path) -> None:
    done = await plugbay("serve", "--reload", "--config", str(tmp_path / "plugins.yaml"))
    assert (done.code, done.err) == (
        2,
        "plugbay: error: --reload follows the code of TARGETs; a config file is followed without it\n",
    )
    done = await plugbay("serve", "directory", "--reload")
    assert (done.code, done.err.splitlines()[0]) == (2, "plugbay: error: unknown option --reload")
