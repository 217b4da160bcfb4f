"""PCI devices for virtual machines: bound to vfio-pci when they are given away, and to their own driver afterwards.

Serve it with ``plugbay serve examples/vfio_rebind.py``, as root, on a machine with an IOMMU and vfio-pci loaded. On
kubelets, which tell nobody of the end of a pod, plugbay finds out by itself; ``--release`` says how.

Every step looks at what is the case first: both hooks may be called again after a crash, whatever was done by then.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from plugbay import (
    AllocationError,
    Assignment,
    ContainerEdits,
    Device,
    DeviceNode,
    DevicePlugin,
    merge_devices,
    unhealthy,
)

SYSFS = Path(os.environ.get("SYSFS", "/sys"))
DEV = Path(os.environ.get("DEV", "/dev"))
MODEL = "0x8086", "0x1572"  # vendor and device: the ones to give away
VFIO = "vfio-pci"
BINDING_S = 10

PCI = SYSFS / "bus/pci"


class PassThrough(DevicePlugin):
    resource_name = "example.com/passthrough"
    watch_uevents = ({"SUBSYSTEM": "pci"},)

    def discover(self) -> Iterator[Device]:
        for place in sorted((PCI / "devices").iterdir()):
            if (read(place / "vendor"), read(place / "device")) == MODEL:
                yield self.device(place)

    def device(self, place: Path) -> Device:
        group = (place / "iommu_group").resolve()
        nodes = [DEV / "vfio/vfio", DEV / "vfio" / group.name]
        device = Device(
            place.name,
            env={"PCI_ADDRESSES": place.name},
            device_nodes=[DeviceNode(node) for node in nodes],
        )
        # VFIO hands out whole groups: the others of it would have to leave their drivers, too.
        others = [each.name for each in sorted((group / "devices").iterdir()) if each.name != place.name]
        return device.with_health(unhealthy("SharedGroup", f"with {', '.join(others)}")) if others else device

    def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
        for device in devices:
            try:
                rebind(device.id, override=VFIO)
            except (OSError, TimeoutError) as error:
                raise AllocationError(f"{device.id} cannot be bound to {VFIO}: {error}") from error
        return merge_devices(device.edits for device in devices)

    def release(self, assignment: Assignment) -> None:
        for address in assignment.device_ids:
            is_there = (PCI / "devices" / address).exists()
            if is_there and driver_of(address) in (VFIO, ""):  # without one: a crash in the middle left it so
                rebind(address, override="")


def rebind(address: str, *, override: str) -> None:
    """Have the driver ``override`` drive a device; without one, whichever the kernel finds for it."""
    if override and driver_of(address) == override:
        return
    # Before it is free, or another driver takes it. One that is just probing it gets it all the same: then once more.
    (PCI / "devices" / address / "driver_override").write_text(f"{override}\n")
    latest = time.monotonic() + BINDING_S
    while time.monotonic() < latest:
        if driver := driver_of(address):
            (PCI / "drivers" / driver / "unbind").write_text(address)
            if driver_after(driver, address, latest) == driver:
                break
        (PCI / "drivers_probe").write_text(address)
        if not override or driver_after("", address, latest) == override:  # without one there may be none for it
            return
    raise TimeoutError(f"its driver is still {driver_of(address) or 'none'}")


def driver_after(driver: str, address: str, latest: float) -> str:
    """The next driver of a device: they may take their time to let go of one, and to probe one."""
    while (found := driver_of(address)) == driver and time.monotonic() < latest:
        time.sleep(0.01)
    return found


def driver_of(address: str) -> str:
    try:
        return os.path.basename(os.readlink(PCI / "devices" / address / "driver"))
    except FileNotFoundError:
        return ""


def read(path: Path) -> str:
    return path.read_text().strip()
