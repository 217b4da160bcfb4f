"""``plugbay cleanup`` beside real plugins: running, killed, and gone."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.cli.main import run
from plugbay.model.ids import DeviceId
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.process.runner import serving
from plugbay.sdk.release.ledger import lines
from plugbay.testing.fakes.kubelet import FakeKubelet, fake_kubelet
from tests.contract.rigs.sdk_cdi import RESOURCE, Machine, machine
from tests.unit.plugins.nvidia.driver_trees import tegra_board

__all__ = ["machine"]

DEADLINE_S = 30
PLUGIN = """
from pathlib import Path
from plugbay import Device, DevicePlugin

class Gophers(DevicePlugin):
    resource_name = "vendor.example/gopher"
    cdi_kind = "vendor.example/gopher"

    def discover(self):
        return [Device(name, env={"GOPHER": name}) for name in ("g1", "g2")]

    def release(self, assignment):
        pass
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, sockets: Path) -> None:
    monkeypatch.setenv("PLUGBAY_ROOT", str(sockets / "another"))  # no node of this machine counts


def cleanup(machine: Machine, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, str]:
    """What it says of each file, by name: ``removed``, ``kept: ...`` or ``would remove``."""
    capsys.readouterr()
    for given in (machine.paths.root, machine.specs):
        given.mkdir(parents=True, exist_ok=True)
    assert run(["cleanup", "--root", str(machine.paths.root), "--cdi-directory", str(machine.specs), *options]) == 0
    said = {}
    for line in capsys.readouterr().out.splitlines():
        head, _, rest = line.partition(" /")
        path, _, why = rest.partition(": ")
        said[Path(path).name.partition("-0")[0]] = head if head != "kept" else f"kept: {why}"
    return said


@asynccontextmanager
async def plugin(machine: Machine, kubelet: FakeKubelet, *devices: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that serves gophers, and has given some to a pod."""
    script = machine.paths.root / "gophers.py"
    script.write_text(PLUGIN)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(machine.paths.root), "serve", str(script)),
        *("--cdi-directory", str(machine.specs)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        registered = await kubelet.next_registration()
        await registered.until_devices("g1", "g2")
        if devices:
            await registered.client.allocate([DeviceId(each) for each in devices])
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) in (0, -9)


def ours(machine: Machine) -> list[Path]:
    """All files but the kubelet's, the plugin's code, and what Python made of it."""
    roots = (machine.paths.device_plugins, machine.specs)
    return [path for root in roots for path in sorted(root.rglob("*")) if path not in kubelets(machine)]


def kubelets(machine: Machine) -> tuple[Path, ...]:
    return machine.paths.checkpoint, machine.paths.registration_socket


async def test_what_a_running_plugin_has_stays_and_a_killed_ones_goes(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    async with fake_kubelet(machine.paths) as kubelet:
        machine.assign()
        async with plugin(machine, kubelet) as process:
            before = ours(machine)
            assert len(before) >= 5  # socket, directory of journals with its files, spec and its lock
            said = await asyncio.to_thread(cleanup, machine, capsys)
            assert all(why.startswith("kept: ") for why in said.values()), said
            assert any("a process listens there" in why for why in said.values())
            assert ours(machine) == before
            process.kill()
            await process.wait()
        left = ours(machine)
        foreign = [machine.specs / "other.json", machine.paths.device_plugins / "other.sock", machine.paths.root / "x"]
        for path in foreign[:2]:
            path.write_text("{}")
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(str(machine.paths.device_plugins / "nvidia-gpu.sock"))  # of another plugin, at which none listens
        dead.close()
        planned = await asyncio.to_thread(cleanup, machine, capsys, "--dry-run")
        assert set(planned.values()) == {"would remove"}
        assert set(left) <= set(ours(machine))
        done = await asyncio.to_thread(cleanup, machine, capsys)
        assert done.keys() == planned.keys()
        assert set(done.values()) == {"removed"}
        assert {path.name for path in ours(machine)} == {"other.json", "other.sock", "nvidia-gpu.sock"}
        assert all(path.exists() for path in kubelets(machine))
        assert await asyncio.to_thread(cleanup, machine, capsys) == {
            machine.paths.root.name: "no plugin of plugbay has left anything at"
        }


async def test_what_pods_have_stays_until_they_are_gone(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_kubelet(machine.paths) as kubelet:
        machine.assign()
        async with plugin(machine, kubelet, "g1") as process:
            machine.assign("g1")
            process.kill()
            await process.wait()
        said = await asyncio.to_thread(cleanup, machine, capsys)
        assert "pods have g1" in said[machine.file.name]
        journal = f"{RESOURCE.replace('/', '_')}.journal"
        assert "not released yet: g1; start the plugin once more" in said[journal]
        assert said[".plugbay"].startswith("kept: ")
        assert machine.file.exists()
        machine.assign()  # the pod is gone, and the device is not clean for that
        said = await asyncio.to_thread(cleanup, machine, capsys)
        assert said[machine.file.name] == "removed"
        assert "not released yet: g1" in said[journal]
        machine.paths.checkpoint.write_text("{")
        machine.file.write_text("{}")
        said = await asyncio.to_thread(cleanup, machine, capsys)
        assert "pods may have its devices" in said[machine.file.name]


async def test_cdi_specs_of_gpus_go_when_no_plugin_and_no_pod_may_need_them(
    machine: Machine, capsys: pytest.CaptureFixture[str], sockets: Path
) -> None:
    """Plugins of NVIDIA's and ours write files of one name, so that either's process and pods count."""
    spec = machine.specs / "k8s.device-plugin.nvidia.com-gpu.json"
    arguments, environment = parse_flags(
        ["--device-list-strategy=cdi-cri", "--nvidia-driver-root=/", "--driver-root-ctr-path=/"], {}
    )
    settings = NodeSettings(arguments, environment, {}, tegra_board(sockets / "machine"), machine.specs)
    async with fake_kubelet(machine.paths) as kubelet, serving([NvidiaSource(settings)], paths=machine.paths):
        plugin = await kubelet.next_registration()
        await plugin.until_devices("tegra")
        said = await asyncio.to_thread(cleanup, machine, capsys)
        assert "a plugin that runs may have it: a process listens at /" in said[spec.name]
    assert spec.exists()
    machine.assign("tegra", resource="nvidia.com/gpu")
    said = await asyncio.to_thread(cleanup, machine, capsys)
    assert "CDI spec of nvidia.com: pods have tegra; an engine looks there" in said[spec.name]
    machine.paths.checkpoint.write_text("{")
    said = await asyncio.to_thread(cleanup, machine, capsys)
    assert "pods may have its devices" in said[spec.name]
    machine.assign("g1")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(machine.paths.device_plugins / "nvidia-gpu.sock"))
        other.listen()
        said = await asyncio.to_thread(cleanup, machine, capsys)
        assert "nvidia-gpu.sock" in said[spec.name]
    planned = await asyncio.to_thread(cleanup, machine, capsys, "--dry-run")
    assert planned[spec.name] == "would remove"
    done = await asyncio.to_thread(cleanup, machine, capsys)
    assert done[spec.name] == "removed"
    assert not spec.exists()


def test_what_cannot_be_read_stays_and_other_files_are_not_looked_at(
    machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    header = json.dumps({"format": lines.FORMAT + 1, "boot": "b", "resource": "a.example/new"}).encode()
    (tmp_path / "a.example_new.journal").write_bytes(b"%08x %b\n" % (zlib.crc32(header), header))
    (tmp_path / "b.example_bad.journal").write_text("no journal\n")
    (tmp_path / "c.example_empty.journal").touch()
    (tmp_path / "apt.lock").touch()
    (tmp_path / ".c.example_empty.journal.0123456789ab.tmp").touch()
    said = cleanup(machine, capsys, "--state-directory", str(tmp_path))
    assert "a newer plugbay wrote it (format 2)" in said["a.example_new.journal"]
    assert "1 of its lines are damaged" in said["b.example_bad.journal"]
    assert said["c.example_empty.journal"] == "removed"
    assert sorted(os.listdir(tmp_path)) == ["a.example_new.journal", "apt.lock", "b.example_bad.journal"]


@pytest.mark.parametrize("option", ["--root", "--cdi-directory", "--state-directory"])
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_directory_that_is_not_there_is_told_before_anything_is_removed(
    option: str, kind: str, machine: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    machine.paths.device_plugins.mkdir(parents=True)
    machine.specs.mkdir(parents=True)
    path = machine.paths.device_plugins / "vendor.example_gopher-0123abcd.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    (tmp_path / "file").touch()
    given = {"--root": machine.paths.root, "--cdi-directory": machine.specs, option: tmp_path / kind}
    words = [word for name, directory in given.items() for word in (name, str(directory))]
    assert run(["cleanup", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"plugbay: error: {option} {tmp_path / kind}: there is no such directory\n")
    assert path.exists()
    assert run(["cleanup", "--root", str(tmp_path), "--cdi-directory", str(machine.specs)]) == 0
    assert capsys.readouterr().out == f"no plugin of plugbay has left anything at {tmp_path}\n"


def test_what_cannot_be_removed_is_told_and_is_an_exit_code(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.paths.device_plugins.mkdir(parents=True)
    machine.specs.mkdir(parents=True)
    path = machine.paths.device_plugins / "vendor.example_gopher-0123abcd.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    command = ["cleanup", "--root", str(machine.paths.root), "--cdi-directory"]

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        assert run([*command, str(machine.specs)]) == 1
    out = capsys.readouterr().out
    assert out == f"kept {path}: socket of vendor.example/gopher: it cannot be removed: Read-only file system\n"
    assert run([*command, str(machine.specs)]) == 0
    assert not path.exists()
