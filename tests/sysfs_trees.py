"""Machines as data: trees of ``/sys`` and ``/dev`` in umockdev's format, laid out below a directory.

Each device is a paragraph: ``P:`` its path, ``N:`` its node, ``S:`` links to that from elsewhere in ``/dev``, ``E:``
its properties, ``A:`` attributes and ``L:`` links in its directory. The machines are put together after the kernel's
documentation of each bus, as ``umockdev-record`` would tell of them.

Source: umockdev 0.18 ``README.md`` for the format; Linux ``Documentation/ABI``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.machine import SysMachine

RECORDED: Final = Path(__file__).parent / "golden/sysfs"
TREES: Final = sorted(path.stem for path in RECORDED.glob("*.umockdev"))
"""The names of all machines."""
BUSES: Final = frozenset(
    "acpi amba gpio hid i2c iio media mmc node pci platform pnp scsi serial-base serio spi usb usb-serial".split()
)
"""Subsystems that are not classes."""


@dataclass
class RecordedDevice:
    """One paragraph."""

    path: str
    node: str = ""
    links: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)

    @property
    def subsystem(self) -> str:
        return self.properties["SUBSYSTEM"]


def recorded(name: str) -> list[RecordedDevice]:
    """The devices of a machine, those above before those below."""
    return [*_paragraphs((RECORDED / f"{name}.umockdev").read_text(encoding="utf-8"))]


def lay_out(name: str, root: Path) -> SysMachine:
    """Lay a recorded machine out in ``root/sys`` and ``root/dev``, where nodes are empty files."""
    for directory in ("sys/bus", "sys/class", "sys/devices", "sys/dev/char", "sys/dev/block", "dev"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    for device in recorded(name):
        appear(device, root)
    return SysMachine(root / "sys", root / "dev")


def appear(device: RecordedDevice, root: Path) -> Uevent:
    """Make a device with all that leads to it; returns the uevent a kernel would send."""
    sys, place = root / "sys", root / f"sys{device.path}"
    place.mkdir(parents=True, exist_ok=True)
    name = place.name
    for attribute, text in device.attributes.items():
        (place / attribute).parent.mkdir(exist_ok=True)
        (place / attribute).write_text(f"{text}\n")
    told = {key: value.removeprefix("/dev/") for key, value in device.properties.items() if key != "SUBSYSTEM"}
    (place / "uevent").write_text("".join(f"{key}={value}\n" for key, value in told.items()))
    is_bus = device.subsystem in BUSES
    home = sys / ("bus" if is_bus else "class") / device.subsystem
    _link(home / "devices" / name if is_bus else home / name, place)
    _link(place / "subsystem", home)
    if driver := told.get("DRIVER"):
        _link(place / "driver", home / "drivers" / driver)
    for pointer, target in device.pointers.items():
        (place / pointer).symlink_to(target)
        if pointer == "iommu_group":
            _link(sys / "kernel/iommu_groups" / Path(target).name / "devices" / name, place)
    if device.node:
        kind = "block" if device.subsystem == "block" else "char"
        _link(sys / "dev" / kind / f"{told['MAJOR']}:{told['MINOR']}", place)
        node = root / "dev" / device.node
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        for link in device.links:
            _link(root / "dev" / link, node)
    return Uevent("add", device.path, {"SUBSYSTEM": device.subsystem, **told})


def vanish(device: RecordedDevice, root: Path) -> Uevent:
    """Take a device away, which has none below it any more; returns the uevent a kernel would send."""
    place = root / f"sys{device.path}"
    home = root / "sys" / ("bus" if device.subsystem in BUSES else "class") / device.subsystem
    for link in (home / place.name, home / "devices" / place.name, *(root / "dev" / link for link in device.links)):
        link.unlink(missing_ok=True)
    if device.node:
        number = f"{device.properties['MAJOR']}:{device.properties['MINOR']}"
        for kind in ("char", "block"):
            (root / "sys/dev" / kind / number).unlink(missing_ok=True)
        (root / "dev" / device.node).unlink()
    for path in sorted(place.rglob("*"), reverse=True):
        (path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink)()
    place.rmdir()
    return Uevent("remove", device.path, {"SUBSYSTEM": device.subsystem})


def _link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.mkdir(parents=True)
    if not place.is_symlink():
        place.symlink_to(os.path.relpath(target, place.parent))


def _paragraphs(text: str) -> Iterator[RecordedDevice]:
    device: RecordedDevice | None = None
    for line in text.splitlines():
        kind, _, rest = line.partition(": ")
        key, _, value = rest.partition("=")
        if kind == "P":
            if device is not None:
                yield device
            device = RecordedDevice(rest)
        elif device is None or not line or line.startswith("#"):
            continue
        elif kind == "N":
            device.node = key
        elif kind == "S":
            device.links.append(rest)
        else:
            {"E": device.properties, "A": device.attributes, "L": device.pointers}[kind][key] = value
    if device is not None:
        yield device
