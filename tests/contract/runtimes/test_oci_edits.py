"""What a container of a real engine gets: its variables, mounts and devices."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plugbay.errors import ContainerStartError
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.runtimes.oci.rootfs import HostView
from plugbay.runtimes.oci.shares import UNSHARED
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.container_specs import changed
from tests.contract.rigs.oci import Places, needs_fuse, output_of, places, runtime_on, spec, whole_log, why_not
from tests.contract.rigs.process import DEADLINE_S, sh

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


async def test_env_of_devices_stands_before_the_pods_which_wins(places: Places, spec: ContainerSpec) -> None:
    edits = ContainerEdits(env={"GOPHER": "g1", "BOTH": "device"})
    given = changed(spec, argv=("env",), env={"BOTH": "pod", "OWN": "x"}, edits=edits)
    async with runtime_on(places) as runtime:
        lines = (await output_of(runtime, given)).splitlines()
    assert [each for each in lines if each.partition("=")[0] in ("GOPHER", "BOTH", "OWN", "HOSTNAME")] == [
        "HOSTNAME=gopher-pod",
        "GOPHER=g1",
        "BOTH=pod",
        "OWN=x",
    ]


async def test_mounts_are_where_they_should_be_and_read_only_ones_stay_so(
    places: Places, spec: ContainerSpec, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the host\n")
    (tmp_path / "room").mkdir()
    edits = ContainerEdits(mounts=(Mount(tmp_path / "given", container_path="/run/gophers/g1", read_only=True),))
    script = (
        "cat /run/gophers/g1/file; (echo x > /run/gophers/g1/y) 2>/dev/null || echo refused; echo hello > /data/out"
    )
    wanted = replace(sh(spec, script), edits=edits, mounts=(Mount(tmp_path / "room", container_path="/data"),))
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, wanted)
    assert text == "from the host\nrefused\n"
    assert (tmp_path / "room" / "out").read_text() == "hello\n"
    assert os.listdir(tmp_path / "given") == ["file"]


async def test_mounts_need_no_place_on_the_host(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "file").write_text("from the plugin\n")
    edits = ContainerEdits(
        mounts=(
            Mount(tmp_path / "given", container_path="/opt/plugbay-test/driver", read_only=True),
            Mount(tmp_path / "given/file", container_path="/usr/share/plugbay-test.conf", read_only=True),
            Mount(tmp_path / "given", container_path="/etc/plugbay/slot", read_only=True),
        )
    )
    places_in_it = "/opt/plugbay-test/driver/file /usr/share/plugbay-test.conf /etc/plugbay/slot/file"
    script = f"cat {places_in_it}; ls -ld /opt | cut -c 1-10"
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, script), edits=edits))
    assert text == "from the plugin\n" * 3 + "drwxr-xr-x\n"
    assert not Path("/opt/plugbay-test").exists()


FUSE = DeviceNode("/dev/fuse", container_path="/dev/gopher", permissions="rw")
OPENS = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR)); print('open')"


@needs_fuse
async def test_a_device_opens_and_others_are_refused_by_the_cgroup(places: Places, spec: ContainerSpec) -> None:
    fuse = os.stat("/dev/fuse")
    number = f"{os.major(fuse.st_rdev)}:{os.minor(fuse.st_rdev)}"
    other = "c 10 235" if number != "10:235" else "c 10 236"
    script = (
        "python3=$1; stat -c '%t:%T %a' /dev/gopher; $python3 -I -S -c \"$2\" /dev/gopher; ls /dev/fuse 2>&1;"
        f" mknod /dev/other {other}; cat /dev/other 2>&1"
    )
    wanted = changed(spec, argv=("sh", "-c", script, "sh", "/usr/bin/python3", OPENS))
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3")
    async with runtime_on(places) as runtime:
        state = await runtime.start(replace(wanted, edits=ContainerEdits(device_nodes=(FUSE,))))
        await runtime.wait(state.id)
        shown, opened, absent, refused = (await whole_log(runtime, state.id)).splitlines()
    mode = fuse.st_mode & 0o777
    assert shown == f"{os.major(fuse.st_rdev):x}:{os.minor(fuse.st_rdev):x} {mode:o}"
    assert opened == "open"
    assert "No such file" in absent
    assert "not permitted" in refused


@needs_fuse
async def test_permissions_are_those_that_were_given(places: Places, spec: ContainerSpec) -> None:
    edits = ContainerEdits(device_nodes=(replace(FUSE, permissions="r"),))
    script = "exec 3</dev/gopher && echo read; (exec 4>/dev/gopher) 2>/dev/null || echo no write"
    async with runtime_on(places) as runtime:
        assert await output_of(runtime, replace(sh(spec, script), edits=edits)) == "read\nno write\n"


@needs_fuse
async def test_a_directory_stands_for_the_devices_below_it(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    (tmp_path / "made" / "deeper").mkdir(parents=True)
    fuse = os.stat("/dev/fuse")
    for name in ("a", "deeper/b"):
        os.mknod(tmp_path / "made" / name, fuse.st_mode, fuse.st_rdev)
    (tmp_path / "made" / "text").write_text("no device")
    (tmp_path / "link").symlink_to("made")
    edits = ContainerEdits(device_nodes=(DeviceNode(tmp_path / "link", container_path="/dev/set", permissions="rw"),))
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, replace(sh(spec, "cd /dev/set; find . -type c | sort"), edits=edits))
    assert text.split() == ["./a", "./deeper/b"]


@pytest.mark.parametrize(
    ("node", "reason", "text"),
    [
        (
            DeviceNode("/dev/nope", container_path="/dev/x", permissions="rw"),
            "CreateContainerError",
            "lstat /dev/nope: no such file or directory",
        ),
        (DeviceNode("", container_path="/dev/x"), "CreateContainerError", "lstat : no such file or directory"),
        (
            DeviceNode("/etc/passwd", container_path="/dev/x", permissions="rw"),
            "CreateContainerError",
            "not a device node",
        ),
        (
            DeviceNode("/dev/null", container_path="/dev/x", permissions=""),
            "StartError",
            "device access at 1 field cannot be empty",
        ),
    ],
)
async def test_devices_that_cannot_be_given_fail_the_start(
    places: Places, spec: ContainerSpec, node: DeviceNode, reason: str, text: str
) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError) as caught:
            await runtime.start(changed(spec, edits=ContainerEdits(device_nodes=(node,))))
    assert (caught.value.reason, text in str(caught.value)) == (reason, True)


async def test_mount_of_nothing_is_not_one_of_the_instances_own_directory(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError, match="lstat : no such file or directory"):
            await runtime.start(changed(spec, edits=ContainerEdits(mounts=(Mount("", container_path=""),))))


async def test_a_root_file_system_of_choice(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs a static busybox")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    (root / "sh").symlink_to("bin/busybox")
    (root / "hello").write_text("from its root\n")
    grounds = Grounds(
        HostView(root, layer=places.view.layer), places.cgroup_parent, (), (), shares_of=lambda pod: UNSHARED
    )
    runtime = SupervisedRuntime(
        places.instances,
        environ=os.environ,
        clock=lambda: datetime.now(UTC),
        confinement=OciConfinement(places.engine, grounds),
    )
    before = sorted(str(each) for each in root.rglob("*"))
    async with asyncio.timeout(DEADLINE_S):
        wanted = changed(spec, argv=("/sh", "-c", "read line < /hello; echo $line; echo /*"))
        text = await output_of(runtime, wanted)
        for state in await runtime.list():
            await runtime.remove(state.id)
    assert text.splitlines() == ["from its root", "/bin /dev /hello /proc /run /sh /sys /tmp"]
    assert sorted(str(each) for each in root.rglob("*")) == before, "nothing is made in it"
