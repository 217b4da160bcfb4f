"""The device plugin API versions we speak, and the answers to a plugin that speaks none of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from plugbay.errors import RegistrationRefused, quote


class PluginVersion(Enum):
    """Every version that we have a wire client for, the best first.

    Source: kubelet 1.36 ``apis/deviceplugin/v1beta1/constants.go``, ``SupportedVersions``.
    """

    V1BETA1 = "v1beta1"


def negotiate(offered: Sequence[str]) -> PluginVersion | None:
    """The best version that both sides speak; versions are compared as whole texts."""
    return next((version for version in PluginVersion if version.value in offered), None)


def accept_version(requested: str) -> PluginVersion:
    """Accept the version of a Register call, which names exactly one.

    Raises:
        RegistrationRefused: with the text for the plugin.
    """
    version = negotiate([requested])
    if version is None:
        supported = " ".join(quote(version.value) for version in PluginVersion)
        raise RegistrationRefused(
            f"requested API version {quote(requested)} is not supported by kubelet. Supported version is [{supported}]"
        )
    return version


def accept_versions(offered: Sequence[str]) -> PluginVersion:
    """Choose the version for a plugin that the plugin watcher found, which names all versions it speaks.

    Raises:
        RegistrationRefused: with the text for the plugin.
    """
    version = negotiate(offered)
    if version is None:
        ours = " ".join(version.value for version in PluginVersion)
        raise RegistrationRefused(
            f"manager version, {ours}, is not among plugin supported versions [{' '.join(offered)}]"
        )
    return version
