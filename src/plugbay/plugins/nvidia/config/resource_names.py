"""Names of resources, and patterns of GPU names and MIG profiles. Pure.

Source: k8s-device-plugin 0.20 ``api/config/v1/resources.go``; spec 1.5.
"""

from __future__ import annotations

import re
from typing import Final

from plugbay.model import dns
from plugbay.model.ids import ResourceName
from plugbay.values import dataclass

PREFIX: Final = "nvidia.com/"
GPU: Final = ResourceName(f"{PREFIX}gpu")
SHARED: Final = ".shared"
"""The end of the name under which replicas are registered."""
_MAX_NAME: Final = 63
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def parse_gpu_resource(text: str) -> ResourceName:
    """The resource of that name, with ``nvidia.com/`` in front when the name lacks it.

    Raises:
        ValueError: more than 63 characters, or the part after the slash is not an RFC 1123 subdomain.
    """
    name = text if text.startswith(PREFIX) else f"{PREFIX}{text}"
    if len(name.encode()) > _MAX_NAME:
        raise ValueError(f"fully-qualified resource name must be {_MAX_NAME} characters or less: {name}")
    if not dns.is_subdomain(name.removeprefix(PREFIX)):
        raise ValueError(f"incorrect format for resource name '{name}': [{_SUBDOMAIN_RULE}]")
    return ResourceName(name)


def shared_name(resource: ResourceName) -> ResourceName:
    """The name of its replicas with ``renameByDefault``."""
    return ResourceName(f"{resource}{SHARED}")


def mig_resource(profile: str) -> ResourceName:
    """The resource of MIG devices of a profile such as ``1g.5gb+me``, with the strategy ``mixed``."""
    return ResourceName(f"{PREFIX}mig-{profile.replace('+', '.')}")


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resource of the GPUs or MIG profiles whose names match.

    Attributes:
        pattern: ``*`` stands for any run of characters, and everything else for itself.
    """

    pattern: str
    resource: ResourceName

    def matches(self, name: str) -> bool:
        """Whether the pattern stands for all of ``name``."""
        parts = map(re.escape, self.pattern.split("*"))
        return re.fullmatch(".*".join(parts), name, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class ResourcePatterns:
    """The patterns of a configuration; the first one that matches counts.

    Attributes:
        gpus: for names of GPUs, such as ``NVIDIA A100-SXM4-40GB``.
        mig: for names of MIG profiles, such as ``1g.5gb+me``.
    """

    gpus: tuple[ResourcePattern, ...] = ()
    mig: tuple[ResourcePattern, ...] = ()

    def resource_of_gpu(self, name: str) -> ResourceName | None:
        return next((each.resource for each in self.gpus if each.matches(name)), None)

    def resource_of_profile(self, name: str) -> ResourceName | None:
        return next((each.resource for each in self.mig if each.matches(name)), None)


NO_PATTERNS: Final = ResourcePatterns()
