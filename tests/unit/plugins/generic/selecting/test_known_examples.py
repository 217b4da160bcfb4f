"""The examples in the other plugin's documents and manifest, each with the devices that are expected.

Source: generic-device-plugin 0.1 ``README.md``, ``manifests/generic-device-plugin.yaml``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from plugbay.plugins.generic.answers.answering import answer
from plugbay.plugins.generic.answers.devices import device_of
from plugbay.plugins.generic.config.reading import parse_device_flag
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import FileKind, HostTree
from plugbay.plugins.generic.selecting.units import Unit
from tests.unit.plugins.generic.selecting.machines import Bench
from tests.unit.plugins.generic.selecting.trees import NoHardware, TreeOfData, host_paths

TREE: Final = TreeOfData(
    [
        "/dev/ttyS0",
        "/dev/ttyUSB1",
        "/dev/ttyUSB0",
        "/dev/ttyACM0",
        "/dev/rfcomm3",
        "/dev/video0",
        "/dev/video1",
        "/dev/fuse",
        "/dev/snd/seq",
        *(f"/dev/snd/{name}" for name in ("controlC0", "pcmC0D0c", "pcmC0D0p", "controlC2", "pcmC2D0c", "controlC1")),
    ]
)
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes device nodes")
SERIAL: Final = ["/dev/ttyUSB*", "/dev/ttyACM*", "/dev/tty.usb*", "/dev/cu.*", "/dev/cuaU*", "/dev/rfcomm*"]


def groups(*patterns: str) -> str:
    return ", ".join(f'{{"paths": [{{"path": "{pattern}"}}]}}' for pattern in patterns)


def capture(card: int) -> str:
    control, pcm = f"/dev/snd/controlC{card}", f"/dev/snd/pcmC{card}D0c"
    if card == 0:
        return f'{{"paths": [{{"path": "{control}"}}, {{"path": "{pcm}"}}]}}'
    return (
        f'{{"paths": [{{"path": "{control}", "mountPath": "/dev/snd/controlC0"}},'
        f' {{"path": "{pcm}", "mountPath": "/dev/snd/pcmC0D0c"}}]}}'
    )


EXAMPLES: Final = [
    pytest.param(
        f'{{"name": "serial", "groups": [{groups(*SERIAL)}]}}',
        [("/dev/rfcomm3",), ("/dev/ttyACM0",), ("/dev/ttyUSB0",), ("/dev/ttyUSB1",)],
        id="serial",
    ),
    pytest.param(f'{{"name": "video", "groups": [{groups("/dev/video0")}]}}', [("/dev/video0",)], id="video"),
    pytest.param(
        '{"name": "fuse", "groups": [{"count": 10, "paths": [{"path": "/dev/fuse"}]}]}',
        [("/dev/fuse",)] * 10,
        id="fuse",
    ),
    pytest.param(
        '{"name": "audio", "groups": [{"count": 10, "paths": [{"path": "/dev/snd"}]}]}',
        [("/dev/snd",)] * 10,
        id="audio",
    ),
    pytest.param(
        f'{{"name": "capture", "groups": [{", ".join(map(capture, range(4)))}]}}',
        [("/dev/snd/controlC0", "/dev/snd/pcmC0D0c"), ("/dev/snd/controlC2", "/dev/snd/pcmC2D0c")],
        id="capture",
    ),
    pytest.param(
        '{"name": "capture", "groups": [{"paths": [{"path": "/dev/snd/pcmC0D0c"}, {"path": "/dev/snd/controlC0"}]}]}',
        [("/dev/snd/pcmC0D0c", "/dev/snd/controlC0")],
        id="capture-pair",
    ),
    pytest.param(
        '{"name": "serial", "groups": [{"paths": [{"path": "/dev/ttyS0", "optional": true},'
        ' {"path": "/dev/ttyUSB9", "optional": true}]}]}',
        [("/dev/ttyS0",)],
        id="optional",
    ),
    pytest.param(
        '{"name": "serial", "groups": [{"paths": [{"path": "/dev/ttyUSB*", "mountPath": "/dev/serial/"}]}]}',
        [("/dev/ttyUSB0",), ("/dev/ttyUSB1",)],
        id="directory",
    ),
]


@pytest.mark.parametrize(("device", "wanted"), EXAMPLES)
def test_a_documented_example_gives_the_expected_devices(device: str, wanted: list[tuple[str, ...]]) -> None:
    config = parse_device_flag(device, source="--device")
    found = select(config, NoHardware(), TREE)
    [units] = found.units.values()
    assert sorted(map(host_paths, units)) == wanted
    assert {unit.id for unit in units} == {
        hashlib.sha1(f"{unit.copy}{''.join(host_paths(unit))}".encode()).hexdigest() for unit in units
    }
    assert found.troubles == ()


@is_root
@pytest.mark.parametrize(("device", "wanted"), EXAMPLES)
def test_allocate_gives_what_a_documented_example_offers(
    tmp_path: Path, device: str, wanted: list[tuple[str, ...]]
) -> None:
    for minor, path in enumerate(TREE.files):
        node = tmp_path / path.lstrip("/")
        node.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(240, minor))
    config = parse_device_flag(device, source="--device")
    [units] = select(config, NoHardware(), HostTree(tmp_path)).units.values()
    edits = [answer([(unit, device_of(unit))], root=tmp_path) for unit in units]
    assert sorted(tuple(node.host_path for node in each.device_nodes) for each in edits) == wanted


def test_where_the_examples_put_devices_in_containers() -> None:
    config = parse_device_flag(f'{{"name": "capture", "groups": [{capture(2)}]}}', source="--device")
    [[unit]] = select(config, NoHardware(), TREE).units.values()
    assert [node.container_path for node in unit.nodes] == ["/dev/snd/controlC0", "/dev/snd/pcmC0D0c"]


USB_EXAMPLES: Final = [
    ('{"name": "ch340", "groups": [{"usb": [{"vendor": "1a86", "product": "7523"}]}]}', 2),
    ('{"name": "key", "groups": [{"usb": [{"vendor": "1209", "product": "000F", "serial": "00000001"}]}]}', 1),
    (
        '{"name": "keys", "groups": [{"usb": [{"vendor": "1209", "product": "000F"},'
        ' {"vendor": "1209", "product": "000F", "serial": "00000001"}]}]}',
        1,
    ),
]


def usb_units(root: Path, device: str, *, real_nodes: bool = False) -> Sequence[Unit]:
    bench = Bench(root, real_nodes=real_nodes)
    for port, (vendor, product, serial) in enumerate(
        [(0x1A86, 0x7523, ""), (0x1A86, 0x7523, ""), (0x1209, 0x000F, "00000001"), (0x1209, 0x000F, "00000002")],
        start=1,
    ):
        bench.hub.plug(port, vendor=vendor, product=product, serial=serial)
    [units] = select(parse_device_flag(device, source="--device"), bench.machine(), TREE).units.values()
    return units


@pytest.mark.parametrize(("device", "count"), USB_EXAMPLES)
def test_documented_usb_examples(tmp_path: Path, device: str, count: int) -> None:
    units = usb_units(tmp_path, device)
    assert len(units) == count
    assert all(node.permissions == "rw" for unit in units for node in unit.nodes)


@is_root
@pytest.mark.parametrize(("device", "count"), USB_EXAMPLES)
def test_allocate_gives_what_a_documented_usb_example_offers(tmp_path: Path, device: str, count: int) -> None:
    for unit in usb_units(tmp_path, device, real_nodes=True):
        given = answer([(unit, device_of(unit))], root=tmp_path).device_nodes
        assert [node.host_path for node in given] == [node.host_path for node in unit.nodes]


def test_files_that_are_not_nodes_are_given_where_the_config_asks_for_the_other_plugins_ways() -> None:
    tree = TreeOfData({"/dev/file": FileKind.OTHER})
    text = '{"name": "file", "groups": [{"paths": [{"path": "/dev/file", "anyFile": true}]}]}'
    [units] = select(parse_device_flag(text, source="--device"), NoHardware(), tree).units.values()
    assert len(units) == 1
