"""Answers for all devices of a container, with host paths of a real directory."""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import AllocationError
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import DeviceId
from plugbay.plugins.generic.answers.answering import answer
from plugbay.plugins.generic.answers.devices import device_of
from plugbay.plugins.generic.config.rules import Gifts, Interfaces, MountRule, PathRule, Paths, Where
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.units import Unit
from tests.unit.plugins.generic.answers.units import group, tty, unit

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")


def given(*units: Unit, root: Path = Path("/"), has_cdi: bool = False) -> ContainerEdits:
    return answer([(each, device_of(each)) for each in units], has_cdi=has_cdi, root=root)


def problem(units: Sequence[Unit], root: Path) -> str:
    with pytest.raises(AllocationError) as caught:
        given(*units, root=root)
    return str(caught.value)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with the serial ports 0 to 2."""
    (tmp_path / "dev").mkdir()
    for number in range(3):
        os.mknod(tmp_path / f"dev/ttyUSB{number}", stat.S_IFCHR | 0o600, os.makedev(188, number))
    return tmp_path


@is_root
def test_variables_with_an_index_count_the_devices_of_the_container(host: Path) -> None:
    gifts = Gifts(env={"SERIAL_${index}": "{path}", "SERIALS": "{path}"})
    edits = given(tty(1, gifts), tty(2, gifts), root=host)
    assert edits.env == {
        "SERIALS": "/dev/ttyUSB1,/dev/ttyUSB2",
        "SERIAL_0": "/dev/ttyUSB1",
        "SERIAL_1": "/dev/ttyUSB2",
    }
    assert [node.host_path for node in edits.device_nodes] == ["/dev/ttyUSB1", "/dev/ttyUSB2"]


@is_root
def test_the_different_values_of_a_variable_are_joined(host: Path) -> None:
    gifts = Gifts(env={"MODE": "fast", "MODEL": "{model}", "PATHS": "{path}", "SERIALS": "{serial}"})
    twin = replace(tty(2, gifts), facts={"path": "/dev/ttyUSB2", "model": "CP2102"})
    shares = [replace(tty(0, gifts), id=DeviceId(f"tty0::{copy}"), copy=copy) for copy in (1, 2)]
    assert given(tty(0, gifts), *shares, twin, root=host).env == {
        "MODE": "fast",
        "MODEL": "CP2102",
        "PATHS": "/dev/ttyUSB0,/dev/ttyUSB2",
        "SERIALS": "0000",
    }
    assert given(tty(0, gifts), shares[0], root=host).env["MODEL"] == ""


@is_root
def test_beside_cdi_names_comes_what_a_spec_cannot_say(host: Path) -> None:
    gifts = Gifts(
        cdi_kind="example.com/serial",
        env={"SERIAL_${index}": "{path}", "MODE": "x"},
        annotations={"example.com/{name}": "{serial}"},
    )
    edits = given(tty(0, gifts), tty(1, gifts), root=host, has_cdi=True)
    assert edits == ContainerEdits(
        env={"MODE": "x", "SERIAL_0": "/dev/ttyUSB0", "SERIAL_1": "/dev/ttyUSB1"},
        annotations={"example.com/ttyUSB0": "0000", "example.com/ttyUSB1": "0001"},
    )


@is_root
def test_a_name_with_an_index_may_not_be_that_of_another_variable(host: Path) -> None:
    gifts = Gifts(env={"SERIAL_${index}": "{path}", "SERIAL_0": "x"})
    assert problem([tty(0, gifts)], host) == (
        "the variable SERIAL_0 comes from a device, and from the number of another one too"
    )


@is_root
def test_two_devices_at_one_path_of_the_container_are_refused_with_both_paths(host: Path) -> None:
    fixed = [tty(number, mount_path="/dev/modem") for number in (0, 1)]
    assert problem(fixed, host) == (
        "tty0 and tty1 want /dev/ttyUSB0 and /dev/ttyUSB1 at the same path of the container, /dev/modem: in the "
        "plugin's config, end mountPath with a /, so that each keeps its own name"
    )
    assert given(fixed[0], root=host).device_nodes[0].container_path == "/dev/modem"


@is_root
def test_a_node_that_devices_share_is_given_once(host: Path) -> None:
    shared = DeviceNode("/dev/ttyUSB2")
    pair = [replace(tty(number), nodes=(DeviceNode(f"/dev/ttyUSB{number}"), shared)) for number in (0, 1)]
    assert [node.host_path for node in given(*pair, root=host).device_nodes] == [
        "/dev/ttyUSB0",
        "/dev/ttyUSB2",
        "/dev/ttyUSB1",
    ]


@is_root
def test_a_mount_and_a_node_at_one_path_are_refused(host: Path) -> None:
    mounted = unit("m", mounts=[Mount("/dev", container_path="/dev/ttyUSB0")])
    assert "m and tty0 want /dev and /dev/ttyUSB0 at the same path of the container, /dev/ttyUSB0" in problem(
        [mounted, tty(0)], host
    )


def test_paths_that_are_gone_are_named_with_what_to_do(tmp_path: Path) -> None:
    mount = unit("m", mounts=[Mount("/var/lib/cal")])
    nowhere = unit("n", nodes=[DeviceNode("/dev/ttyUSB7")])
    assert problem([mount, nowhere], tmp_path) == (
        "/var/lib/cal does not exist; make it, or ask for another device; "
        "/dev/ttyUSB7 does not exist any more; connect the device again, or ask for another one"
    )


@is_root
def test_a_mount_that_comes_with_a_device_is_looked_for_too(host: Path) -> None:
    calibrated = tty(0, Gifts(mounts=(MountRule("/var/lib/cal/{serial}", "/cal"),)))
    assert problem([calibrated], host) == ("/var/lib/cal/0000 does not exist; make it, or ask for another device")
    (host / "var/lib/cal/0000").mkdir(parents=True)
    assert given(calibrated, root=host).mounts == (Mount("/var/lib/cal/0000", container_path="/cal"),)


def test_a_file_at_the_place_of_a_node_is_refused_unless_the_rules_take_any(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/ttyUSB0").write_text("left by a redirection")
    assert problem([tty(0)], tmp_path) == (
        "/dev/ttyUSB0 is a regular file now and not a device node; remove it, and connect the device again"
    )
    any_file = group(what=Paths((PathRule("/dev/ttyUSB*", takes_any_file=True),)))
    assert given(replace(tty(0), group=any_file), root=tmp_path).device_nodes == (DeviceNode("/dev/ttyUSB0"),)


@is_root
def test_a_directory_of_nodes_is_given_as_a_whole_while_a_node_is_in_it(host: Path) -> None:
    rules = group(what=Paths((PathRule("/dev/snd"),)))
    sound = unit("snd", rules, nodes=[DeviceNode("/dev/snd")])
    deep = host / "dev/snd/by-card/controlC0"
    deep.parent.mkdir(parents=True)
    (host / "dev/snd/readme").touch()
    assert problem([sound], host) == (
        "/dev/snd has no device node any more; connect a device of it, or ask for another one"
    )
    os.mknod(deep, stat.S_IFCHR | 0o600, os.makedev(116, 0))
    assert given(sound, root=host).device_nodes == (DeviceNode("/dev/snd"),)
    other = unit("other", group(what=Paths((PathRule("/dev/s*"),))), nodes=[DeviceNode("/dev/snd")])
    assert problem([other], host) == (
        "/dev/snd is a directory now and not a device node; remove it, and connect the device again"
    )


@is_root
def test_a_node_that_is_another_device_now_is_refused(host: Path) -> None:
    """Two sticks changed places, and the new list is not there yet."""
    port = "/devices/usb1/1-1/1-1.{}/1-1.{}:1.0/ttyUSB0/tty/ttyUSB0"
    (host / "sys/dev/char").mkdir(parents=True)
    for number in (1, 2):
        (host / "sys" / port.format(number, number).lstrip("/")).mkdir(parents=True)
    stick = replace(tty(0), sys_paths=(SysPath("/devices/usb1/1-1/1-1.1"),))
    link = host / "sys/dev/char/188:0"
    link.symlink_to("../.." + port.format(1, 1))
    assert given(stick, root=host).device_nodes == (DeviceNode("/dev/ttyUSB0"),)
    link.unlink()
    link.symlink_to("../.." + port.format(2, 2))
    assert problem([stick], host) == (
        f"/dev/ttyUSB0 is another device now, {port.format(2, 2)}; "
        "ask again in a moment, when the list of devices is new"
    )


def test_two_interfaces_of_one_name_in_the_pod_are_refused(tmp_path: Path) -> None:
    what = Interfaces(Where("name", ("ib*",)), "fast0")
    cards = [replace(unit(name, group(what=what)), interfaces=(name,)) for name in ("ib0", "ib1")]
    for name in ("ib0", "ib1"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    assert given(cards[0], root=tmp_path, has_cdi=True) == ContainerEdits()
    assert problem(cards, tmp_path) == (
        "the network interfaces ib0 and ib1 would both be fast0 in the pod: in the plugin's config, name the interface "
        "in interfaceName, as in {name}"
    )
    (tmp_path / "sys/class/net/ib0").rmdir()
    assert problem(cards[:1], tmp_path) == (
        "the network interface ib0 is not on the host any more; ask again when it is back"
    )


@is_root
def test_two_shares_of_a_device_in_one_container_are_refused_where_the_rules_say_so(host: Path) -> None:
    one = replace(tty(0), group=group(one_share=True, count=2), physical="stick")
    shares = [replace(one, id=DeviceId(id)) for id in ("a", "b")]
    assert problem(shares, host) == (
        "a and b are shares of the same device, /dev/ttyUSB0, and a container gets one of them at most "
        "(onePerContainer): fewer other devices are free than the container asks for, or the kubelet has not followed "
        "the plugin's preference"
    )
    assert given(shares[0], root=host).device_nodes == (DeviceNode("/dev/ttyUSB0"),)
    free = [replace(each, group=group(count=2)) for each in shares]
    assert given(*free, root=host).device_nodes == (DeviceNode("/dev/ttyUSB0"),)
