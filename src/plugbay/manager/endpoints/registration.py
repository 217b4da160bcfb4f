"""Checks on a registration, in the kubelet's order and words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, RegistrationRefused, quote
from plugbay.manager.endpoints.versions import accept_version, accept_versions
from plugbay.model.ids import ResourceName, is_extended_resource
from plugbay.wire.pluginregistration import PluginInfo
from plugbay.wire.registration import Registration

INVALID: Final = "invalid"
OTHER: Final = "other"
"""Labels of registrations without a valid name, and of those beyond the number of names that are counted."""


def label_of(registration: Registration) -> str:
    """The label a registration counts under. A kubelet counts under any name, and so keeps whatever it is sent."""
    return registration.resource_name if is_extended_resource(registration.resource_name) else INVALID


def check_registration(registration: Registration, directory: Path) -> tuple[ResourceName, Path]:
    """Return the resource and the socket that a registration names.

    A kubelet joins ``endpoint`` to the directory unchecked (PR #138382); we refuse an endpoint that leads out of it. An
    empty endpoint is the directory, which cannot be dialled.

    Raises:
        RegistrationRefused: with the text for the plugin.

    Source: kubelet 1.36 ``cm/devicemanager/plugin/v1beta1/server.go``, ``Register``; spec 2.1-2.3.
    """
    accept_version(registration.version)
    if not is_extended_resource(registration.resource_name):
        raise RegistrationRefused(f"the ResourceName {quote(registration.resource_name)} is invalid")
    inside = os.path.normpath(directory)
    place = Path(os.path.normpath(directory / registration.endpoint.lstrip("/")))
    if not place.is_relative_to(inside):
        raise RegistrationRefused(f"endpoint {quote(registration.endpoint)} is not inside the device plugin directory")
    # Below the directory as it is given: its own ".." may follow a link.
    return ResourceName(registration.resource_name), directory / place.relative_to(inside)


def check_plugin_info(info: PluginInfo, socket: Path) -> tuple[ResourceName, Path]:
    """Return the resource and the socket of a device plugin that answered on the registration socket ``socket``.

    A kubelet dials a relative ``endpoint`` from whatever directory it runs in; we refuse it.

    Raises:
        RegistrationRefused: with the text for the plugin.

    Source: kubelet 1.36 ``server.go``, ``ValidatePlugin``; spec 2.6.
    """
    accept_versions(info.versions)
    if not is_extended_resource(info.name):
        raise RegistrationRefused(
            f"invalid name of device plugin socket: the ResourceName {quote(info.name)} is invalid"
        )
    if info.endpoint and not os.path.isabs(info.endpoint):
        raise RegistrationRefused(f"endpoint {quote(info.endpoint)} is not an absolute path")
    return ResourceName(info.name), Path(info.endpoint) if info.endpoint else socket


def open_to_group(directory: Path, group: int | None) -> None:
    """Let members of ``group``, if there is one, make sockets in the directory; those belong to the group.

    Raises:
        PathUnusable: we may not.
    """
    if group is None:
        return
    try:
        os.chown(directory, -1, group)
        directory.chmod(0o2770)
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be given to group {group}: {error.strerror}") from error


def prepare_directory(directory: Path) -> None:
    """Make the device plugin directory and remove the sockets of an earlier run from it, plugins' sockets included.

    Plugins register again when their sockets are removed. Other files stay. Every socket is tried before it fails.

    Raises:
        PathUnusable: the directory cannot be made or listed, or a socket not removed.

    Source: kubelet 1.36 ``server.go``, ``cleanupPlugins``; spec 1.4.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot use this directory: {error.strerror}") from error
    problems = []
    for entry in entries:
        try:
            if entry.is_socket():
                entry.unlink(missing_ok=True)
        except OSError as error:
            problems.append(f"{entry.name}: {error.strerror}")
    if problems:
        raise PathUnusable(str(directory), f"cannot remove old sockets: {', '.join(problems)}")
