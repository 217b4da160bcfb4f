"""The ways back of a device that an XID made unhealthy, and the meaning of XIDs. Pure.

Source: NVIDIA's "XID Errors" catalogue, release 555 and later, column "immediate action".
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.plugins.nvidia.config.choices import RecoveryStrategy
from plugbay.values import dataclass


class XidClass(Enum):
    """The remedy that NVIDIA names for an XID; it decides how its device comes back."""

    APPLICATION = "application"
    """An error of a program: the GPU is as good as before."""
    CONTAINED = "contained"
    """The GPU has dealt with it: what it was doing is lost, and new work can begin."""
    RESET = "reset"
    """The GPU works again after a reset, and not before."""


_MEANINGS: Final = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    32: "invalid or corrupted push buffer stream",
    38: "driver firmware error",
    43: "GPU stopped processing",
    45: "preemptive cleanup",
    46: "GPU stopped processing",
    48: "double bit ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "ECC page retirement or row remapping recorded",
    64: "ECC page retirement or row remapping failed",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single bit ECC errors",
    94: "contained ECC error",
    95: "uncontained ECC error",
    109: "context switch timeout",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "C2C NVLink corrected error",
    137: "NVLink fault of a peer",
    140: "unrecovered ECC error",
    143: "GPU initialization failure",
    149: "NVLink error",
    154: "GPU recovery action changed",
}
_APPLICATION: Final = frozenset({13, 31, 32, 43, 45, 68, 69, 109, 137})
_CONTAINED: Final = frozenset({63, 92, 94, 121})


def class_of(xid: int) -> XidClass:
    """The class of an XID; one that is not known needs a reset, which is always enough."""
    if xid in _APPLICATION:
        return XidClass.APPLICATION
    return XidClass.CONTAINED if xid in _CONTAINED else XidClass.RESET


def meaning_of(xid: int) -> str:
    """The meaning of an XID in a few words; empty when it is not known."""
    return _MEANINGS.get(xid, "")


class ComesBack(Enum):
    """The event that has to come before a device is probed and offered again."""

    NEVER = "never"
    PROBE = "probe"
    """Nothing more than a probe that passes."""
    CLEAN = "clean"
    """No XID for some time."""
    RESET = "reset"
    """A reset of the GPU: it was lost and came back, the driver was loaded anew, or its counters began anew."""


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """Decides how devices come back.

    Attributes:
        strategy: as configured.
        clean_s: the seconds without an XID that count as clean.
    """

    strategy: RecoveryStrategy = RecoveryStrategy.BY_XID
    clean_s: float = 60.0

    def after(self, xid: int) -> ComesBack:
        """The way in which a device comes back from this XID."""
        match self.strategy:
            case RecoveryStrategy.NEVER:
                return ComesBack.NEVER
            case RecoveryStrategy.CLEAN:
                return ComesBack.CLEAN
            case RecoveryStrategy.RESET:
                return ComesBack.RESET
            case RecoveryStrategy.BY_XID:
                return ComesBack.RESET if class_of(xid) is XidClass.RESET else ComesBack.CLEAN

    def sentence(self, way: ComesBack) -> str:
        """The thing that a device waits for, for logs and status."""
        match way:
            case ComesBack.NEVER:
                return "it stays unhealthy until the plugin gets SIGHUP or starts anew, and a probe passes"
            case ComesBack.PROBE:
                return "it is probed at every look, and offered again when it passes"
            case ComesBack.CLEAN:
                return f"it is probed, and offered again, after {self.clean_s:g} s without an XID"
            case ComesBack.RESET:
                return "it is probed, and offered again, after a reset of the GPU or on SIGHUP"
