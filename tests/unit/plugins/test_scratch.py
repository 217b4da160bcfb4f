"""Scratch disks on this machine's kernel, through crashes at any point."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import AllocationError, InvalidResourceName, PathUnusable, UsageError
from plugbay.kernel import loop as loop_module
from plugbay.kernel.loop import FileSlice, LoopDevices
from plugbay.kernel.sparse import can_hold
from plugbay.model.assignments import Assignment, AssignmentKey
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.scratch import disks as disks_module
from plugbay.plugins.scratch.config import layout_of
from plugbay.plugins.scratch.disks import Disks
from plugbay.plugins.scratch.plugin import ScratchPlugin, scratch_plugins

LOOPS = LoopDevices(Path("/dev"), Path("/sys"))
RESOURCE = "example.com/scratch"
SIZE = 1 << 20
SECRET = b"secret".ljust(512, b"!")


def can_make_loop_devices() -> bool:
    try:
        LOOPS.check()
    except OSError:
        return False
    return os.geteuid() == 0


needs_loop = pytest.mark.skipif(not can_make_loop_devices(), reason="needs root and /dev/loop-control")


class Machine:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = directory / "disk0"

    def disks(self, *, size: int = SIZE) -> Disks:
        return Disks(self.directory, owner=RESOURCE, size=size, loops=LOOPS)

    def whole(self, *, size: int = SIZE) -> FileSlice:
        return FileSlice(self.disk, 0, size)

    def plugins(self, *, size: str = "1Mi", count: int = 1, partitions: int = 0) -> list[ScratchPlugin]:
        return scratch_plugins(
            layout_of(RESOURCE, size=size, count=count, partitions=partitions), self.directory, LOOPS
        )

    def use(self, device: str = "disk0") -> None:
        """What a container does."""
        with open(self.directory / "nodes" / device, "rb+", buffering=0) as node:
            node.write(SECRET)

    def read(self, device: str = "disk0") -> bytes:
        return (self.directory / "nodes" / device).read_bytes()

    @property
    def attached(self) -> list[str]:
        return sorted(loop.name for file in self.directory.glob("disk*") for loop in LOOPS.of(file))


@pytest.fixture
def make() -> Iterator[Callable[[Path], Machine]]:
    """Makes machines that leave no loop device behind."""
    made: list[Machine] = []

    def one_at(directory: Path) -> Machine:
        made.append(Machine(directory))
        return made[-1]

    yield one_at
    for machine in made:
        for file in machine.directory.glob("disk*"):
            for loop in LOOPS.of(file):
                LOOPS.detach(loop)


@pytest.fixture
def machine(make: Callable[[Path], Machine], tmp_path: Path) -> Machine:
    return make(tmp_path / "disks")


def allocate(plugin: ScratchPlugin, *names: str) -> None:
    plugin.allocate([device for device in plugin.discover() if device.id in names])


def release(plugin: ScratchPlugin, *names: str) -> None:
    ids = tuple(map(DeviceId, names))
    plugin.release(Assignment(key=AssignmentKey("k"), resource=ResourceName(RESOURCE), device_ids=ids))


class Crash(BaseException):
    """The process ends here."""


EFFECTS: list[tuple[object, str]] = [
    (LoopDevices, "attach"), (LoopDevices, "detach"), (disks_module, "clear"),
    (os, "mknod"), (os, "ftruncate"), (Path, "unlink"), (Path, "replace"), (Path, "mkdir"),
]  # fmt: skip


@pytest.mark.root
@needs_loop
@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_is_lost_or_handed_out_dirty_after_a_crash_at_any_point(
    make: Callable[[Path], Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Crash around the n-th effect, for every n; then begin again as a manager does: release, then allocate."""
    countdown = [0]

    def dying(effect: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            countdown[0] -= 1
            if countdown[0] == 0 and when == "before":
                raise Crash
            result = effect(*args, **kwargs)
            if countdown[0] == 0:
                raise Crash
            return result

        return run

    for owner, name in EFFECTS:
        monkeypatch.setattr(owner, name, dying(getattr(owner, name)))
    for crash_at in itertools.count(1):
        machine = make(tmp_path / str(crash_at))
        countdown[0] = crash_at
        try:
            disks = machine.disks()
            disks.attach("disk0", machine.whole())
            machine.use()
            disks.release("disk0", machine.disk, machine.whole())
        except Crash:
            countdown[0] = 0
        else:
            break
        disks = machine.disks()
        disks.release("disk0", machine.disk, machine.whole())
        assert machine.attached == []
        assert disks.attach("disk0", machine.whole())
        assert machine.attached == ["disk0"]
        assert machine.read() == bytes(SIZE)
        disks.release("disk0", machine.disk, machine.whole())
    assert crash_at > len(EFFECTS)
    assert machine.attached == []
    assert machine.disk.read_bytes() == bytes(SIZE)


@pytest.mark.root
@needs_loop
def test_file_that_a_crash_left_dirty_is_wiped_before_it_is_given(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    disks = machine.disks()
    disks.attach("disk0", machine.whole())
    machine.use()
    [loop] = LOOPS.of(machine.disk)
    LOOPS.detach(loop)
    assert machine.disks().attach("disk0", machine.whole())
    assert machine.read() == bytes(SIZE)
    assert "disk0 was not empty, though no pod has it; wiping it" in caplog.text


@pytest.mark.root
@needs_loop
def test_app_container_finds_what_its_init_container_wrote(machine: Machine) -> None:
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    machine.use()
    [again] = machine.plugins()
    allocate(again, "disk0")
    assert machine.read().startswith(SECRET)
    assert machine.attached == ["disk0"]


@pytest.mark.root
@needs_loop
def test_parts_are_wiped_one_by_one(machine: Machine) -> None:
    whole, parts = machine.plugins(partitions=4)
    allocate(parts, "disk0-p1", "disk0-p2")
    machine.use("disk0-p1")
    machine.use("disk0-p2")
    with pytest.raises(AllocationError, match="disk0-p1, which overlaps, is in use"):
        allocate(whole, "disk0")
    release(parts, "disk0-p1")
    assert machine.attached == ["disk0-p2"]
    assert machine.read("disk0-p2").startswith(SECRET)
    assert machine.disk.read_bytes().count(b"secret") == 1
    release(parts, "disk0-p2")
    allocate(whole, "disk0")
    assert machine.read() == bytes(SIZE)


@pytest.mark.root
@needs_loop
def test_whole_disk_excludes_its_partitions_and_no_others(machine: Machine) -> None:
    whole, parts = machine.plugins(partitions=2, count=2)
    allocate(whole, "disk0")
    with pytest.raises(AllocationError, match="scratch disk0-p1: disk0, which overlaps, is in use"):
        allocate(parts, "disk0-p1")
    allocate(parts, "disk1-p1")
    assert machine.attached == ["disk0", "disk1-p1"]
    release(parts, "disk1-p1")
    release(whole, "disk0")
    allocate(parts, "disk0-p1")
    assert machine.attached == ["disk0-p1"]


@pytest.mark.root
@needs_loop
def test_disk_that_does_not_become_empty_is_given_to_nobody(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that says it has cleared something and has not; once it does as it says, all is well again."""
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    machine.use()
    with monkeypatch.context() as lying:
        lying.setattr(disks_module, "clear", lambda file, offset, size: None)
        for _ in range(2):
            with pytest.raises(PathUnusable) as caught:
                release(plugin, "disk0")
            assert str(caught.value) == f"{machine.disk}: is not empty after it was wiped"
        with pytest.raises(AllocationError, match=r"scratch disk0: .*disk0: is not empty after it was wiped"):
            allocate(plugin, "disk0")
        assert machine.attached == []
    release(plugin, "disk0")
    assert machine.disk.read_bytes() == bytes(SIZE)
    allocate(plugin, "disk0")
    assert machine.read() == bytes(SIZE)


@pytest.mark.root
@needs_loop
def test_disk_that_cannot_be_written_is_not_released(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: Path, offset: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    machine.use()
    monkeypatch.setattr(disks_module, "clear", broken)
    with pytest.raises(PathUnusable, match="disk0: cannot be wiped: Input/output error"):
        release(plugin, "disk0")


@pytest.mark.root
@needs_loop
def test_disk_that_somebody_has_open_is_not_released_and_not_wiped(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the container that has outlived it, say."""
    monkeypatch.setattr(loop_module, "CLEAR_S", 0.1)
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    machine.use()
    with open(machine.directory / "nodes" / "disk0", "rb"):
        with pytest.raises(PathUnusable, match="cannot be detached: a process has it open"):
            release(plugin, "disk0")
        assert machine.disk.read_bytes().startswith(SECRET)
    release(plugin, "disk0")
    assert machine.attached == []
    assert machine.disk.read_bytes() == bytes(SIZE)


NO_HOLES = """
import sys
from pathlib import Path
from plugbay.kernel.loop import FileSlice, LoopDevices
from plugbay.kernel.sparse import can_hold
from plugbay.plugins.scratch.disks import Disks

loops, file, size = LoopDevices(Path("/dev"), Path("/sys")), Path(sys.argv[1]) / "disks" / "disk0", 1 << 20
disks = Disks(file.parent, owner="example.com/scratch", size=size, loops=loops)
try:
    disks.attach("disk0", FileSlice(file, 0, size))
    with open(disks.node("disk0"), "rb+", buffering=0) as node:
        node.write(b"secret".ljust(size, b"!"))
    disks.release("disk0", file, FileSlice(file, 0, size))
    print(file.read_bytes() == bytes(size), file.stat().st_size == size, loops.of(file))
finally:
    for loop in loops.of(file):
        loops.detach(loop)
"""


@pytest.mark.root
@needs_loop
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_zeros_are_written_where_nothing_can_be_discarded(tmp_path: Path) -> None:
    """A file system without holes: ramfs, in a mount namespace that goes with its process."""
    script = 'mount -t ramfs none "$1" && exec "$0" -c "$2" "$1"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, str(tmp_path), NO_HOLES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if "mount:" in done.stderr:
        pytest.skip(f"cannot mount here: {done.stderr}")
    assert (done.stdout, done.stderr) == ("True True []\n", "")


@pytest.mark.root
@needs_loop
def test_refused_request_takes_nothing(machine: Machine) -> None:
    whole, parts = machine.plugins(partitions=2, count=2)
    allocate(parts, "disk1-p0")
    with pytest.raises(AllocationError, match="scratch disk1: disk1-p0"):
        allocate(whole, "disk0", "disk1")
    assert machine.attached == ["disk1-p0"]
    release(parts, "disk1-p0")


@pytest.mark.root
@needs_loop
@pytest.mark.parametrize(("size", "partitions"), [("2Mi", 0), ("1Mi", 4), ("512Ki", 3)])
def test_devices_of_other_settings_are_released_all_the_same(machine: Machine, size: str, partitions: int) -> None:
    _, parts = machine.plugins(partitions=2)
    allocate(parts, "disk0-p0", "disk0-p1")
    machine.use("disk0-p0")
    machine.use("disk0-p1")
    plugin = machine.plugins(size=size, partitions=partitions)[0]
    with pytest.raises(AllocationError):
        allocate(plugin, "disk0")
    release(plugin, "disk0-p1")
    assert machine.attached == ["disk0-p0"]
    assert machine.read("disk0-p0").startswith(SECRET)
    release(plugin, "disk0-p0", "somebody-elses", "disk9")
    allocate(plugin, "disk0")
    assert machine.read() == bytes(layout_of(RESOURCE, size=size, count=1, partitions=partitions).size)


@pytest.mark.root
@needs_loop
def test_file_that_somebody_removed_takes_its_device_along(machine: Machine) -> None:
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    machine.disk.unlink()
    release(plugin, "disk0")
    assert LOOPS.of(machine.disk) == []
    allocate(plugin, "disk0")
    assert machine.read() == bytes(SIZE)


@pytest.mark.root
@needs_loop
def test_directory_may_be_a_file_system_of_its_own(machine: Machine) -> None:
    (machine.directory / "lost+found").mkdir(parents=True)
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    assert machine.attached == ["disk0"]


@pytest.mark.root
@needs_loop
def test_directory_is_of_one_resource(machine: Machine, tmp_path: Path) -> None:
    [plugin] = machine.plugins()
    allocate(plugin, "disk0")
    other = layout_of("example.com/other", size="1Mi", count=1, partitions=0)
    with pytest.raises(PathUnusable, match=f"holds the scratch disks of {RESOURCE}"):
        scratch_plugins(other, machine.directory, LOOPS)
    assert machine.directory.stat().st_mode & 0o777 == 0o700
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PathUnusable, match=r"/file: cannot hold scratch disks: Not a directory$"):
        scratch_plugins(other, file, LOOPS)


@pytest.mark.root
@needs_loop
def test_disks_that_no_file_can_hold_are_not_offered(machine: Machine) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, before[1]))  # as a file system with such a limit
    try:
        if can_hold(machine.directory.parent, 2 << 40):
            pytest.skip("this file system has no files without a name")
        machine.plugins(size="1Ti")
        with pytest.raises(PathUnusable) as caught:
            machine.plugins(size="2Ti")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    problem = f"its file system has no files of {2 << 40} bytes, the size of a scratch disk"
    assert str(caught.value) == f"{machine.directory}: {problem}"
    assert not machine.directory.exists()


def test_machine_without_loop_devices_is_told(tmp_path: Path) -> None:
    layout = layout_of(RESOURCE, size="1Mi", count=1, partitions=0)
    nowhere = LoopDevices(tmp_path / "dev", tmp_path / "sys")
    with pytest.raises(PathUnusable) as caught:
        scratch_plugins(layout, tmp_path / "disks", nowhere)
    assert str(caught.value) == (
        f"{tmp_path}/dev/loop-control: scratch disks need it, and root: No such file or directory"
    )


@pytest.mark.parametrize(
    ("size", "count", "partitions", "problem"),
    [
        ("64M", 1, 0, ""),
        ("4Ki", 1000, 1, ""),
        ("0", 1, 0, "size: 0 is not a multiple of 4096 bytes"),
        ("8Ei", 1, 0, "size: 8Ei is more than a file can have"),
        ("-4Ki", 1, 0, "size: -4Ki is not a multiple"),
        ("500m", 1, 0, "size: 500m is not a multiple"),
        ("many", 1, 0, "size: "),
        ("1Mi", 1001, 0, "count: 1001 is not between 1 and 1000"),
        ("1Mi", 1, -1, "partitions: -1 is not between 0 and 128"),
        ("64Ki", 1, 17, "partitions: 64Ki in 17 parts leaves less than 4096 bytes for each"),
    ],
)
def test_settings_are_checked(size: str, count: int, partitions: int, problem: str) -> None:
    if not problem:
        assert layout_of(RESOURCE, size=size, count=count, partitions=partitions).size % 4096 == 0
        return
    with pytest.raises(UsageError) as caught:
        layout_of(RESOURCE, size=size, count=count, partitions=partitions)
    assert str(caught.value).startswith(problem)


def test_second_resource_needs_a_name_too() -> None:
    long = f"example.com/{'x' * 60}"
    layout_of(long, size="1Mi", count=1, partitions=0)
    with pytest.raises(InvalidResourceName):
        layout_of(long, size="1Mi", count=1, partitions=2)
