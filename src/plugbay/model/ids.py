"""The kinds of names and IDs as distinct types, and the rules for them."""

from __future__ import annotations

from typing import Final, NewType

from plugbay.errors import InvalidDeviceId, InvalidResourceName
from plugbay.model import dns

ResourceName = NewType("ResourceName", str)
"""An extended resource: ``vendor-domain/type``."""
DeviceId = NewType("DeviceId", str)
"""A unit of a resource, unique only inside the resource."""
PodUid = NewType("PodUid", str)
ContainerName = NewType("ContainerName", str)

MAX_DEVICE_ID_BYTES: Final = 63


def is_extended_resource(name: str) -> bool:
    """Whether ``name`` may be registered by a device plugin.

    Labels of the domain are not limited to 63 characters, the domain with ``requests.`` in front is limited to 253
    bytes, and ``kubernetes.io/`` may not occur anywhere.

    Source: kubelet 1.36 ``v1helper.IsExtendedResourceName``, ``content.IsQualifiedName``.
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    parts = f"requests.{name}".split("/")
    if len(parts) != 2:
        return False
    domain, kind = parts
    return dns.is_subdomain(domain) and dns.is_name(kind)


def parse_resource_name(text: str) -> ResourceName:
    """Check that ``text`` is a resource name.

    Raises:
        InvalidResourceName: the kubelet would refuse the name.
    """
    if not isinstance(text, str) or not is_extended_resource(text):
        raise InvalidResourceName(text)
    return ResourceName(text)


def parse_device_id(text: str) -> DeviceId:
    """Check the ID of a device that we offer: 1 to 63 bytes of UTF-8 without control characters.

    The API documents this limit, but kubelets do not check it, and our manager does not either.

    Raises:
        InvalidDeviceId: empty, too long, or not printable.
    """
    if not isinstance(text, str):
        raise InvalidDeviceId(text, "is not a text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidDeviceId(text, "is not valid UTF-8") from None
    if size == 0:
        raise InvalidDeviceId(text, "is empty")
    if size > MAX_DEVICE_ID_BYTES:
        raise InvalidDeviceId(text, f"has {size} bytes; the device plugin API allows {MAX_DEVICE_ID_BYTES}")
    if not text.isprintable():
        raise InvalidDeviceId(text, "holds control characters")
    return DeviceId(text)
