"""Signs of a virtual GPU in PCI configuration space. Pure.

Source: gpu-feature-discovery 0.20 ``internal/vgpu``; PCI Local Bus Specification 3.0, appendix H; spec 7.4.
"""

from __future__ import annotations

from typing import Final

from plugbay.values import dataclass

_WHOLE: Final = 256
_STATUS: Final = 0x06
_HAS_CAPABILITIES: Final = 0x10
_FIRST: Final = 0x34
_VENDOR_SPECIFIC: Final = 0x09
_BROKEN: Final = 0xFF
_SIGNATURE: Final = b"VF"
_RECORDS: Final = 5
_HOST_DRIVER: Final = 0
_TEXT: Final = 10


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The driver on the host of a virtual GPU, such as version ``460.16`` of branch ``r460_00``."""

    version: str
    branch: str


def vendor_capability(config: bytes) -> bytes | None:
    """The vendor-specific capability; None without one.

    Raises:
        ValueError: ``config`` is not whole, as an unprivileged process gets it.
    """
    if len(config) < _WHOLE:
        raise ValueError(f"{len(config)} bytes of PCI configuration space instead of {_WHOLE}; reading it takes root")
    if not config[_STATUS] & _HAS_CAPABILITIES:
        return None
    visited = set()
    position = config[_FIRST]
    while position and position not in visited and position + 2 < len(config):
        kind, following, length = config[position : position + 3]
        if kind == _BROKEN:
            return None
        if kind == _VENDOR_SPECIFIC:
            return config[position : position + length]
        visited.add(position)
        position = following
    return None


def is_vgpu(capability: bytes) -> bool:
    """Whether a vendor-specific capability is that of a virtual GPU."""
    return capability[3:5] == _SIGNATURE


def host_driver(capability: bytes) -> HostDriver | None:
    """The host's driver, as the capability of a virtual GPU tells it; None if it does not."""
    position = _RECORDS
    while position + 2 <= len(capability):
        kind, length = capability[position : position + 2]
        if kind == _HOST_DRIVER:
            texts = capability[position + 2 : position + 2 + 2 * _TEXT]
            if len(texts) < 2 * _TEXT:
                return None
            return HostDriver(_text(texts[:_TEXT]), _text(texts[_TEXT:]))
        if not length:
            return None
        position += length
    return None


def _text(padded: bytes) -> str:
    return padded.strip(b"\0").decode("ascii", errors="replace")
