"""Whether a driver serves a device, on recorded machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.serving.drivers import has_driver
from tests.sysfs_trees import lay_out

STICK = "/devices/pci0000:00/0000:00:14.0/usb1/1-1/1-1.1"
INTERFACE = f"{STICK}/1-1.1:1.0"
TTY = f"{INTERFACE}/ttyUSB0/tty/ttyUSB0"
FUNCTION = "/devices/pci0000:d7/0000:d7:00.0/0000:d8:00.3"


def unbind(root: Path, path: str) -> None:
    uevent = root / f"sys{path}/uevent"
    uevent.write_text("".join(line for line in uevent.read_text().splitlines(True) if not line.startswith("DRIVER=")))
    (root / f"sys{path}/driver").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("tree", "device", "unbound", "expected"),
    [
        ("usb-sticks", TTY, "", True),
        ("usb-sticks", INTERFACE, "", True),
        ("usb-sticks", INTERFACE, INTERFACE, False),
        ("usb-sticks", STICK, "", True),
        ("usb-sticks", STICK, INTERFACE, False),
        ("vfio", FUNCTION, "", True),
        ("vfio", FUNCTION, FUNCTION, False),
        ("vfio", f"{FUNCTION}/net/ens8f0v1", FUNCTION, False),
        ("vfio", "/devices/virtual/misc/vfio", "", True),
    ],
)
def test_the_driver_of_the_nearest_hardware_counts(
    tmp_path: Path, tree: str, device: str, unbound: str, *, expected: bool
) -> None:
    machine = lay_out(tree, tmp_path)
    if unbound:
        unbind(tmp_path, unbound)
    found = machine.device(SysPath(device))
    assert found is not None
    assert has_driver(machine, found) is expected
