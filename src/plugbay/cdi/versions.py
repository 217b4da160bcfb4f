"""Spec versions, and the oldest one that a spec needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plugbay.cdi.spec import Spec

VERSIONS: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""Every released version, oldest first."""

_OLDEST_NEEDED: Final = "0.3.0"


def is_version(text: str) -> bool:
    """Whether a text is a released version; a leading ``v`` is allowed."""
    return text.removeprefix("v") in VERSIONS


def is_older(version: str, than: str) -> bool:
    """Whether ``version`` is older than ``than``; both are released versions."""
    return VERSIONS.index(version.removeprefix("v")) < VERSIONS.index(than.removeprefix("v"))


def minimum_version(spec: Spec) -> str:
    """The oldest version that has all of ``spec``. Specs should declare it: engines refuse newer ones."""
    return next((version for version, is_needed in _NEEDS if is_needed(spec)), _OLDEST_NEEDED)


def _has_1_1_0(spec: Spec) -> bool:
    return any(
        edits.net_devices
        or (edits.intel_rdt and (edits.intel_rdt.schemata is not None or edits.intel_rdt.enable_monitoring))
        for edits in spec.all_edits()
    )


def _has_0_7_0(spec: Spec) -> bool:
    return any(edits.intel_rdt or edits.additional_gids for edits in spec.all_edits())


def _has_0_6_0(spec: Spec) -> bool:
    device_class = spec.kind.partition("/")[2]
    return "." in device_class or bool(spec.annotations) or any(device.annotations for device in spec.devices)


def _has_0_5_0(spec: Spec) -> bool:
    return any(device.name[:1].isdigit() for device in spec.devices) or any(
        node.host_path for edits in spec.all_edits() for node in edits.device_nodes
    )


def _has_0_4_0(spec: Spec) -> bool:
    return any(mount.type for edits in spec.all_edits() for mount in edits.mounts)


_NEEDS: Final[tuple[tuple[str, Callable[[Spec], bool]], ...]] = (
    ("1.1.0", _has_1_1_0),
    ("0.7.0", _has_0_7_0),
    ("0.6.0", _has_0_6_0),
    ("0.5.0", _has_0_5_0),
    ("0.4.0", _has_0_4_0),
)
