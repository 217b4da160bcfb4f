"""The properties of a machine that labels tell of, besides its GPUs. Pure."""

from __future__ import annotations

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class PciFunction:
    """A PCI function of NVIDIA's.

    Attributes:
        address: as sysfs has it, such as ``0000:3b:00.0``.
        pci_class: base class, sub-class and interface as one number, such as ``0x030200``.
        config: its configuration space; unprivileged processes see the first 64 bytes.
    """

    address: str
    pci_class: int
    config: bytes


@dataclass(frozen=True, slots=True)
class MachineProperties:
    """A machine.

    Attributes:
        machine_type: the name of the product; None when it cannot be read.
        pci: NVIDIA's functions; None when the bus cannot be read.
    """

    machine_type: str | None = None
    pci: tuple[PciFunction, ...] | None = None

    def pci_class(self, address: str) -> int | None:
        """The class of the function at an address; None when it is not known."""
        return next((function.pci_class for function in self.pci or () if function.address == address), None)
