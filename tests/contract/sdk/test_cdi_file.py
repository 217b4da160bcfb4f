"""The spec file of a plugin with a CDI kind, through changes, leftovers and kills."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from plugbay.cdi.directories import save
from plugbay.cdi.spec import Edits, Spec
from plugbay.cdi.spec import SpecDevice as Entry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.sdk.cdi.entries import WITHOUT_ENV
from plugbay.sdk.cdi.spec_turns import LOCK_NAME, SpecTurns
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.logs import Errors, errors
from tests.contract.rigs.sdk_cdi import DEADLINE_S, KIND, RESOURCE, Gophers, Machine, allocate, gopher, machine

__all__ = ["errors", "machine"]


# --- the file through changes ---------------------------------------------------------------------------------------


async def test_file_follows_the_devices_and_is_written_only_when_it_changes(machine: Machine) -> None:
    plugin = Gophers(gopher("g1"))
    async with machine.served(plugin) as registered:
        before = machine.file.stat().st_ino
        await allocate(registered, "g1")
        plugin.devices = [gopher("g1", numa_nodes=[0])]
        plugin.refresh()
        await registered.until_devices("g1")
        assert machine.file.stat().st_ino == before
        machine.assign()
        plugin.devices = [gopher("g2")]
        plugin.refresh()
        await registered.until_devices("g2")
        assert "g2" in machine.names()
        assert "g1" in machine.names()  # Allocate was called for it, and nobody knows yet what became of that


async def test_device_that_is_gone_stays_while_somebody_has_it(machine: Machine) -> None:
    machine.assign("g1")
    plugin = Gophers(gopher("g1"), gopher("g2"))
    async with machine.served(plugin) as registered:
        plugin.devices = []
        plugin.refresh()
        await registered.until_devices()
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env"])
        machine.assign()
        await machine.until(lambda: not machine.file.exists())


async def test_nothing_is_taken_out_while_nobody_can_tell(machine: Machine) -> None:
    machine.assign()
    machine.paths.checkpoint.write_text("{")
    plugin = Gophers(gopher("g1"))
    async with machine.served(plugin) as registered:
        plugin.devices = []
        plugin.refresh()
        await registered.until_devices()
    assert machine.names() == ["g1", "g1:without-env"]


async def test_assigned_devices_outlast_the_plugin(machine: Machine) -> None:
    """Their containers may start again before the plugin does, and the device may be gone when it does."""
    machine.assign("g1")
    async with machine.served(Gophers(gopher("g1"), gopher("g2"))):
        pass
    assert machine.names() == ["g1", "g1:without-env"]
    async with machine.served(Gophers(gopher("g2"))):
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env", "g2", "g2:without-env"])
        machine.assign()
        await machine.until(lambda: machine.names() == ["g2", "g2:without-env"])


@pytest.mark.parametrize("left", ["nothing", "garbage"])
async def test_spec_is_whole_again_before_devices_are_offered_after_a_reboot(machine: Machine, left: str) -> None:
    """/run is empty then, or a crash has spoiled it; pods of before have what is found, and what is no more."""
    machine.assign("g1", "gone")
    if left == "garbage":
        machine.specs.mkdir(parents=True)
        machine.file.write_bytes(b"\xff{")

    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.kubelet_with(Gophers(gopher("g1"), gopher("g2")), Others(gopher("m1"))) as kubelet:
        for _ in range(2):
            registered = await kubelet.next_registration()
            offered = await registered.next_list()
            assert set(offered) <= set(machine.names())
        assert sorted({name.removesuffix(WITHOUT_ENV) for name in machine.names()}) == ["g1", "g2", "m1"]
        assert machine.scan().problems == {}
        assert len(list(machine.specs.glob("*.json"))) == 2
    assert machine.names() == ["g1", f"g1{WITHOUT_ENV}"]  # its pod has it still


async def test_what_a_killed_process_was_writing_is_removed(machine: Machine) -> None:
    machine.specs.mkdir(parents=True)
    unfinished, foreign = machine.specs / "spec.plugbay.x1.tmp", machine.specs / "spec.x1.tmp"
    for path in (unfinished, foreign):
        path.touch()
    async with machine.served(Gophers(gopher("g1"))):
        assert sorted(machine.specs.iterdir()) == sorted([foreign, machine.file, machine.specs / LOCK_NAME])


@pytest.mark.parametrize("harm", ["file", "directory", "content"])
async def test_file_that_somebody_spoils_is_made_again(machine: Machine, harm: str) -> None:
    async with machine.served(Gophers(gopher("g1"))):
        match harm:
            case "file":
                machine.file.unlink()
            case "directory":
                shutil.rmtree(machine.specs)
            case _:
                machine.file.write_text("{}")
        await machine.until(lambda: machine.names() == ["g1", "g1:without-env"])


async def test_leftovers_of_ours_are_removed_when_nobody_needs_them(machine: Machine) -> None:
    """Of processes that were killed: files that nobody holds."""
    machine.assign("g1")
    spec = Spec("0.3.0", "vendor.example/other", devices=(Entry("d", edits=Edits(env=("A=1",))),))
    gone = save(spec, machine.specs, "vendor.example-other_plugbay.vendor.example_other")
    assigned = save(spec, machine.specs, f"x-y_plugbay.{RESOURCE.replace('/', '_')}")  # of another kind, once
    foreign = [save(spec, machine.specs, name) for name in ("vendor.example-other", "plugbay", "a_plugbay.b")]

    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.served(Others(gopher("g1"))):
        assert not gone.exists()
        assert assigned.exists()
        assert all(path.exists() for path in foreign)


async def test_files_of_plugins_that_live_are_left_alone(machine: Machine) -> None:
    class Others(Gophers):
        resource_name = "vendor.example/more"

    async with machine.served(Gophers(gopher("g1"))):
        async with serving([Others(gopher("m1"))], paths=machine.paths, cdi_directory=machine.specs):
            await machine.until(lambda: "m1" in machine.names())
            assert "g1" in machine.names()
        assert machine.names() == ["g1", "g1:without-env"]


async def test_second_process_takes_the_file_over(machine: Machine) -> None:
    """A rolling update: the old one neither fights for the file nor removes it."""
    async with fake_kubelet(machine.paths, clears_directory=False) as kubelet:
        async with serving([Gophers(gopher("g1"))], paths=machine.paths, cdi_directory=machine.specs):
            await kubelet.next_registration()
            up = AsyncExitStack()
            await up.enter_async_context(
                serving([Gophers(gopher("g2"))], paths=machine.paths, cdi_directory=machine.specs)
            )
            await machine.until(lambda: machine.names() == ["g2", "g2:without-env"])
        assert machine.names() == ["g2", "g2:without-env"]
        await up.aclose()
        assert not machine.file.exists()


async def test_unwritable_directory_keeps_devices_from_being_offered(machine: Machine, errors: Errors) -> None:
    machine.specs.parent.mkdir()
    machine.specs.touch()
    async with machine.kubelet_with(Gophers(gopher("g1"))) as kubelet:
        assert f"{machine.specs}: cannot be listed: Not a directory" in await errors.next()
        assert kubelet.unasked_registrations == 0
        machine.specs.unlink()
        assert await (await kubelet.next_registration()).next_list() == ("g1",)


async def test_conflict_with_a_foreign_file_is_told_once(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    spec = Spec("0.3.0", KIND, devices=(Entry("g1", edits=Edits(env=("A=1",))),))
    foreign = save(spec, machine.specs, "foreign")
    plugin = Gophers(gopher("g1"), gopher("g2"))
    async with machine.served(plugin) as registered:
        assert "g1" not in machine.names()
        plugin.devices = [gopher("g1"), gopher("g2"), gopher("g3")]
        plugin.refresh()
        await registered.until_devices("g1", "g2", "g3")
    told = [each.message for each in caplog.records if "conflicting device" in each.message]
    assert len(told) == 1
    assert str(foreign) in told[0]
    assert foreign.exists()


# --- as processes ---------------------------------------------------------------------------------------------------

PLUGIN = """
from plugbay import Device, plugin

@plugin("vendor.example/{name}", cdi_kind="vendor.example/gopher")
def gophers():
    yield Device("{name}", env={{"GOPHER": "{name}"}})
"""


async def test_devices_shows_what_would_be_offered(plugbay: Plugbay, tmp_path: Path) -> None:
    text = PLUGIN.format(name="one") + '    yield Device("bare")\n'
    (tmp_path / "one.py").write_text(text)
    done = await plugbay("devices", str(tmp_path / "one.py"))
    assert [row[1] for row in done.rows] == ["one"]
    assert "vendor.example/one: not offered: device bare: a CDI device needs variables, mounts or" in done.err
    (tmp_path / "two.py").write_text(text.replace(KIND, "gopher"))
    done = await plugbay("devices", str(tmp_path / "two.py"))
    assert (done.code, done.err) == (1, 'plugbay: error: invalid CDI kind "gopher": it has to be vendor/class\n')


async def test_processes_that_are_killed_leave_nothing_for_long(plugbay: Plugbay, tmp_path: Path) -> None:
    specs = tmp_path / "cdi"
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(PLUGIN.format(name=name))
    serve = ("serve", "--cdi-directory", str(specs))
    streams = {"stderr": asyncio.subprocess.DEVNULL}
    paths = KubeletPaths(plugbay.root)
    async with fake_kubelet(paths) as kubelet:
        async with plugbay.start(*serve, str(tmp_path / "one.py"), **streams) as plugin:
            await kubelet.next_registration()
            plugin.kill()
            await plugin.wait()
        assert (await plugbay("cdi", "list", "--spec-dir", str(specs), "-o", "name")).out == f"{KIND}=one\n"
        async with plugbay.start(*serve, str(tmp_path / "two.py"), **streams) as plugin:
            await kubelet.next_registration()
            assert (await plugbay("cdi", "list", "--spec-dir", str(specs), "-o", "name")).out == f"{KIND}=two\n"
            plugin.terminate()
            async with asyncio.timeout(DEADLINE_S):
                assert await plugin.wait() == 0
    assert [path.name for path in specs.iterdir()] == [LOCK_NAME]


async def test_a_lock_that_another_process_keeps_is_told_and_does_not_delay_the_end(
    plugbay: Plugbay, tmp_path: Path
) -> None:
    specs = tmp_path / "cdi"
    specs.mkdir()
    (tmp_path / "one.py").write_text(PLUGIN.format(name="one"))
    with SpecTurns(specs).turn():
        arguments = ("serve", "--cdi-directory", str(specs), str(tmp_path / "one.py"))
        async with plugbay.start(*arguments, stderr=asyncio.subprocess.PIPE) as plugin:
            assert plugin.stderr is not None
            async with asyncio.timeout(DEADLINE_S):
                while b"cannot be written: another process keeps .plugbay.lock" not in await plugin.stderr.readline():
                    pass
            plugin.terminate()
            async with asyncio.timeout(DEADLINE_S):
                await plugin.stderr.read()
                assert await plugin.wait() == 0


async def test_a_directory_that_any_user_has_locked_stops_no_plugin(machine: Machine) -> None:
    machine.specs.mkdir(parents=True)
    theirs = os.open(machine.specs, os.O_RDONLY)
    try:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        async with machine.served(Gophers(gopher("g1"))):
            assert "g1" in machine.names()
    finally:
        os.close(theirs)
