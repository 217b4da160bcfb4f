"""Differences between one list of devices and the next, in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.model.devices import Device
from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.health import Health
from plugbay.model.ids import DeviceId
from plugbay.model.sharing import Exclusive, Replicas

logger = logging.getLogger(__name__)

_SHOWN_CHARACTERS: Final = 80
_NOTHING: Final = "nothing"
_EDITS: Final = ("env", "mounts", "device_nodes", "annotations", "cdi_devices")
_FIELDS: Final = ("numa_nodes", "attributes", "capacity", "sharing")


def log_differences(
    resource: str, before: Mapping[DeviceId, Device], after: Mapping[DeviceId, Device], *, why: str
) -> None:
    """Log each device that came, went or changed once, and what made us look."""
    for device_id in before.keys() - after.keys():
        logger.info("%s: device %s is gone; why: %s", resource, device_id, why)
    for device_id, device in after.items():
        old = before.get(device_id)
        if old is device:
            continue
        if old is None:
            logger.info("%s: new device %s, %s; why: %s", resource, device_id, device.health, why)
            continue
        if _is_other_state(old.health, device.health):
            level = logging.INFO if device.health.is_healthy else logging.WARNING
            logger.log(level, "%s: device %s is %s; why: %s", resource, device_id, device.health, why)
        if changes := ", ".join(changes_of(old, device)):
            logger.info("%s: device %s changed: %s; why: %s", resource, device_id, changes, why)


def changes_of(old: Device, new: Device) -> Iterator[str]:
    """The differences besides health, such as ``env CARD: 0 → 1``."""
    for field in _FIELDS:
        yield from _changes(field, getattr(old, field), getattr(new, field))
    for field in _EDITS:
        yield from _changes(field, getattr(old.edits, field), getattr(new.edits, field))


def _changes(field: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _changes(f"{field} {key}", old.get(key, _NOTHING), new.get(key, _NOTHING))
        return
    yield f"{field}: {_shown(old)} → {_shown(new)}"


def _shown(value: object) -> str:
    match value:
        case frozenset():
            text = ", ".join(map(str, sorted(value)))
        case tuple():
            text = ", ".join(map(_shown, value))
        case Mount():
            text = f"{value.host_path} at {value.container_path}{', read-only' if value.read_only else ''}"
        case DeviceNode():
            text = f"{value.host_path} at {value.container_path} ({value.permissions})"
        case Exclusive():
            text = "one container"
        case Replicas():
            text = f"{value.count} replicas"
        case _:
            text = str(value)
    text = text or _NOTHING
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _is_other_state(before: Health, after: Health) -> bool:
    """Whether the log has to tell; messages change with every degree of a temperature."""
    return (before.state, before.reason) != (after.state, after.reason)
