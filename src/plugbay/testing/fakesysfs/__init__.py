"""A machine's ``/sys`` and ``/dev`` below a directory, for tests of programs that find devices there: public.

The names of ``__all__`` are public. May live here: files, links and device nodes as a Linux kernel lays them out, for
NUMA nodes, PCI and USB, and their coming and going. May not: uevents, of which only a kernel is the source; files of
a vendor's driver (see `plugbay.testing.fakenvml`).
"""

from plugbay.testing.fakesysfs.machine import FakeSysfs
from plugbay.testing.fakesysfs.pci import FakePciDevice
from plugbay.testing.fakesysfs.places import FakeSysfsDevice
from plugbay.testing.fakesysfs.usb import FakeUsbDevice, FakeUsbInterface

__all__ = ["FakePciDevice", "FakeSysfs", "FakeSysfsDevice", "FakeUsbDevice", "FakeUsbInterface"]
