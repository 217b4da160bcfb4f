"""The wheel and the sdist: what is in them, and that the wheel works where there is no checkout."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import fake_kubelet

REPOSITORY: Final = Path(__file__).parents[3]
PROJECT: Final = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION: Final = str(PROJECT["version"])
DEADLINE_S: Final = 60
PLUGIN: Final = (
    "from plugbay import Device, plugin\n\n\n@plugin('example.com/gopher')\ndef gophers(): return [Device('g')]\n"
)


def build(to: Path, *options: str) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(to), *options, str(REPOSITORY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def shipped() -> set[str]:
    """The files below src/plugbay that a user needs: all but what Python compiled."""
    source = REPOSITORY / "src"
    paths = (path for path in (source / "plugbay").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(source).as_posix() for path in paths}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the sdist, and of the wheel that was built from that."""
    directory = tmp_path_factory.mktemp("dist")
    build(directory)
    return directory


@pytest.mark.timeout(120)
def test_wheel_and_sdist_hold_the_package_and_nothing_else(built: Path, tmp_path: Path) -> None:
    build(tmp_path, "--wheel")  # of the tree itself
    wheel = built / f"plugbay-{VERSION}-py3-none-any.whl"
    assert wheel.read_bytes() == (tmp_path / wheel.name).read_bytes()

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    meta = f"plugbay-{VERSION}.dist-info"
    about = {f"{meta}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    assert names == shipped() | about
    assert {
        "plugbay/py.typed",
        "plugbay/objects/messages/fields.txt",
        "plugbay/wire/generated/descriptors.binpb",
    } < names

    with tarfile.open(built / f"plugbay-{VERSION}.tar.gz") as sources:
        held = {name.removeprefix(f"plugbay-{VERSION}/") for name in sources.getnames()}
    top = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert held == {f"src/{name}" for name in shipped()} | top


@pytest.mark.timeout(180)
async def test_a_wheel_serves_a_plugin_where_there_is_no_checkout(built: Path, tmp_path: Path, sockets: Path) -> None:
    place = tmp_path / "installed"
    await command(sys.executable, "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(place))
    await command(*pip, "install", str(built / f"plugbay-{VERSION}-py3-none-any.whl"))
    program = str(place / "bin/plugbay")
    assert await command(program, "version") == f"plugbay {VERSION}\n"
    new, script = sockets / "new", sockets / "gophers.py"
    await command(program, "new", "gophers", "--directory", str(new))
    assert (new / "README.md").is_file()
    script.write_text(PLUGIN)
    async with fake_kubelet(KubeletPaths(sockets)) as kubelet:
        serving = await asyncio.create_subprocess_exec(
            *(program, "serve", "--root", str(sockets), str(script)),
            env=CLEAN,
            cwd=sockets,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            plugin = await kubelet.next_registration()
            assert plugin.registration.resource_name == "example.com/gopher"
            await plugin.until_devices("g")
        finally:
            serving.terminate()
            _, log = await asyncio.wait_for(serving.communicate(), DEADLINE_S)
    assert (serving.returncode, b"Traceback" in log) == (0, False), log.decode()


CLEAN: Final = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PLUGBAY", "VIRTUAL"))
}
"""Nothing that would lead to the checkout."""


async def command(*words: str) -> str:
    """Run a program to its end, in a directory outside the checkout; returns what it printed."""
    process = await asyncio.create_subprocess_exec(
        *words,
        env=CLEAN,
        cwd="/",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), 2 * DEADLINE_S)
    finally:
        if process.returncode is None:  # pip --python runs another pip
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    assert process.returncode == 0, errors.decode()
    return out.decode()
