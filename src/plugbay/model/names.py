"""Names of devices: DNS labels that stay the same after every restart, for places that do not allow IDs. Pure.

A device plugin's kubelet knows devices by their IDs only. ResourceSlices want labels.

Source: Kubernetes 1.36 ``resource.k8s.io/v1``; spec ``dra.md`` 18.2.
"""

from __future__ import annotations

import re
from typing import Final, NewType

from plugbay.errors import InvalidDevice
from plugbay.model.dns import is_label

DeviceName = NewType("DeviceName", str)
"""A DNS label, unique among the devices that are published together."""

_OTHER: Final = r"[^a-z0-9]+"
_KEPT: Final = 54
_DIGITS: Final = 8


def parse_device_name(device_id: str, name: str) -> DeviceName:
    """Check that ``name`` is a DNS label.

    Raises:
        InvalidDevice: it is not.
    """
    if not is_label(name):
        raise InvalidDevice(
            device_id, f"the name {name!r} is not a DNS label such as slot-0: 1 to 63 of a-z, 0-9 and -"
        )
    return DeviceName(name)


def derive_name(device_id: str) -> DeviceName:
    """Make a name from a device's ID: the ID if it is a label, otherwise the valid part of it and a digest."""
    if is_label(device_id):
        return DeviceName(device_id)
    # Imported here: OpenSSL is large, and few IDs need it.
    from hashlib import sha256

    digest = sha256(device_id.encode()).hexdigest()[:_DIGITS]
    slug = re.sub(_OTHER, "-", device_id.lower()).strip("-")[:_KEPT].strip("-")
    return DeviceName(f"{slug}-{digest}" if slug else digest)
