"""Names of devices that are good where their IDs are not: a label of DNS, the same after every restart. Pure.

A device plugin's kubelet knows devices by their IDs only. ResourceSlices want labels.

Source: Kubernetes 1.36 ``resource.k8s.io/v1``; spec ``dra.md`` 18.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NewType

from plugbay.errors import DuplicateDeviceName, InvalidDevice

if TYPE_CHECKING:
    from plugbay.model.devices import Device

DeviceName = NewType("DeviceName", str)
"""A label of DNS, unique among the devices that are published together."""

# Not compiled here: every plugin process and every worker would pay for it.
_LABEL: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_OTHER: Final = r"[^a-z0-9]+"
_KEPT: Final = 54
_DIGITS: Final = 8


def parse_device_name(device_id: str, name: str) -> DeviceName:
    """``name``, if it is a label.

    Raises:
        InvalidDevice: it is none.
    """
    if not re.fullmatch(_LABEL, name):
        raise InvalidDevice(
            device_id, f"the name {name!r} is not a DNS label such as slot-0: 1 to 63 of a-z, 0-9 and -"
        )
    return DeviceName(name)


def derive_name(device_id: str) -> DeviceName:
    """The name of a device whose author gave none: its ID if that will do, else what is left of it, and a digest."""
    if re.fullmatch(_LABEL, device_id):
        return DeviceName(device_id)
    # Imported here: OpenSSL is large, and few IDs need it.
    from hashlib import sha256

    digest = sha256(device_id.encode()).hexdigest()[:_DIGITS]
    slug = re.sub(_OTHER, "-", device_id.lower()).strip("-")[:_KEPT].strip("-")
    return DeviceName(f"{slug}-{digest}" if slug else digest)


def check_names(devices: Iterable[Device]) -> None:
    """Refuse names that are not of one device each.

    Raises:
        DuplicateDeviceName: two devices would have the same name, of which an author gave at least one.
    """
    known = list(devices)
    if not any(device.given_name for device in known):
        return  # digests do not meet
    first: dict[DeviceName, Device] = {}
    for device in known:
        other = first.setdefault(device.name, device)
        if other is not device:
            raise DuplicateDeviceName(device.name, other.id, device.id)
