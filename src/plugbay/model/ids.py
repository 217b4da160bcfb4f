"""The distinct strings of the domain, and the rule for resource names."""

from __future__ import annotations

import re
from typing import Final, NewType

from plugbay.errors import InvalidDeviceId, InvalidResourceName

ResourceName = NewType("ResourceName", str)
"""Extended resource: ``vendor-domain/type``."""
DeviceId = NewType("DeviceId", str)
"""One unit of one resource, unique inside the resource only."""
PodUid = NewType("PodUid", str)
ContainerName = NewType("ContainerName", str)

MAX_DEVICE_ID_BYTES: Final = 63
MAX_DOMAIN_BYTES: Final = 253
MAX_TYPE_BYTES: Final = 63

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_TYPE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_extended_resource(name: str) -> bool:
    """Whether ``name`` may be registered by a device plugin.

    Labels of the domain are not limited to 63 characters, the domain with ``requests.`` in front is limited to 253
    bytes, and ``kubernetes.io/`` may stand nowhere.

    Source: kubelet 1.36 ``v1helper.IsExtendedResourceName``, ``content.IsQualifiedName``.
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    parts = f"requests.{name}".split("/")
    if len(parts) != 2:
        return False
    domain, kind = parts
    if len(domain.encode(errors="replace")) > MAX_DOMAIN_BYTES or len(kind.encode(errors="replace")) > MAX_TYPE_BYTES:
        return False
    return bool(_SUBDOMAIN.fullmatch(domain)) and bool(_TYPE.fullmatch(kind))


def is_dns_subdomain(text: str) -> bool:
    """Whether ``text`` may name a node or a pod: an RFC 1123 subdomain of at most 253 bytes."""
    return len(text.encode(errors="replace")) <= MAX_DOMAIN_BYTES and bool(_SUBDOMAIN.fullmatch(text))


def parse_resource_name(text: str) -> ResourceName:
    """``text`` as a resource name.

    Raises:
        InvalidResourceName: the kubelet would refuse the name.
    """
    if not isinstance(text, str) or not is_extended_resource(text):
        raise InvalidResourceName(text)
    return ResourceName(text)


def parse_device_id(text: str) -> DeviceId:
    """``text`` as the ID of a device we offer: 1 to 63 bytes of UTF-8 without control characters.

    The API documents this limit and no kubelet checks it; our manager does not either.

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
