"""Entries of squat's plugin for devices: read as its files and flags have them, with a note for each setting. Pure.

Source: squat/generic-device-plugin 0.1 and 0.2, its README, ``deviceplugin/`` and ``main.go``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from plugbay.model.dns import MAX_LABEL
from plugbay.model.field_path import FieldPath
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, NoteKind

CONFIG: Final = "devices.yaml"
"""The file of ours with the entries."""
USB_BUNDLES: Final = "usbBundles"
"""The word for squat's way with USB devices, in a config of ours."""
_NAME: Final = re.compile(r"[a-z0-9][-a-z0-9]*[a-z0-9]")
_PATH_FIELDS: Final = ("path", "mountPath", "type", "permissions", "readOnly", "limit", "optional")
_USB_IDS: Final = ("vendor", "product")
_USB_ID: Final = re.compile("[0-9a-fA-F]{1,4}")
_USB_IDS_MASK: Final = 0xFFFF
_MOST_NUMBER: Final = 1 << 64
_TYPES: Final = ("Device", "Mount")


def read_device(
    settings: ForeignSettings, at: FieldPath, known: Collection[str], *, is_flag: bool = False
) -> list[dict[str, Any]]:
    """The config entry of a device entry; none if nothing of it can be served.

    Args:
        known: the names of entries before it.
        is_flag: whether it is the text of a flag, of which squat's plugin reads numbers otherwise.
    """
    name_key, groups_key = key_of(settings, "name", at), key_of(settings, "groups", at)
    name = settings.at(*at, name_key)
    if not isinstance(name, str) or _NAME.fullmatch(name.strip()) is None:
        settings.note(NoteKind.LEFT, at, "its name is not one: two or more of a-z, 0-9 and -, no - first or last")
        return []
    name = name.strip()
    if len(name) > MAX_LABEL:
        problem = f"the name has {len(name)} characters, and that of a resource at most {MAX_LABEL}"
        settings.note(NoteKind.LEFT, at, problem)
        return []
    if name in known:
        settings.note(NoteKind.LEFT, at, f"there is a device {name} already, and squat's plugin would not start")
        return []
    groups = []
    for index in settings.items(*at, groups_key):
        group = _read_group(settings, (*at, groups_key, index), is_flag=is_flag)
        groups += [group] if group is not None else []
    if not groups:
        settings.note(NoteKind.LEFT, (*at, name_key), "nothing of it can be served")
        return []
    settings.note(NoteKind.TAKEN, (*at, name_key), f"a device of {CONFIG}")
    return [{"name": name, "groups": groups}]


def _read_group(settings: ForeignSettings, at: FieldPath, *, is_flag: bool) -> dict[str, Any] | None:
    """A group of paths or of USB devices; None if it cannot be served."""
    usb_key = key_of(settings, "usb", at) or key_of(settings, "usbs", at)
    paths_key, count_key = key_of(settings, "paths", at), key_of(settings, "count", at)
    key = usb_key or paths_key
    places = [(*at, key, index) for index in settings.items(*at, key)]
    rules = [_usb(settings, each, is_flag=is_flag) if usb_key else _rule(settings, each) for each in places]
    missing = "" if rules else "it has no paths"
    problem = next((each for each in rules if isinstance(each, str)), missing)
    count = settings.at(*at, count_key) if count_key else None
    if usb_key and paths_key:
        problem = "it has paths and usb, with which squat's plugin does not start"
    if not problem and count is not None and not _is_count(count):
        problem = "its count is not a number from 0 on"
    if problem:
        settings.note(NoteKind.LEFT, at, problem)
        return None
    for place, rule in zip(places, rules, strict=True):
        assert isinstance(rule, dict)
        for name, value in rule.items():
            path = (*place, key_of(settings, name, place))
            is_number = name in _USB_IDS and not isinstance(settings.at(*path), str)
            text = f"as {value}" if name in _USB_IDS else "the same"
            settings.note(NoteKind.TAKEN, path, text + ", as squat's plugin reads it without quotes" * is_number)
    if usb_key:
        settings.note(NoteKind.TAKEN, (*at, usb_key), f"all matches are one device, by compat: [{USB_BUNDLES}]")
    if count_key:
        settings.note(NoteKind.TAKEN, (*at, count_key), "the same")
    return {"usb" if usb_key else "paths": rules, **({"count": count} if count is not None else {})}


def _usb(settings: ForeignSettings, at: FieldPath, *, is_flag: bool) -> dict[str, Any] | str:
    """A USB device with its IDs as squat's plugin reads them; a text says why it cannot be served."""
    given = {name: settings.at(*at, key) for name in (*_USB_IDS, "serial") if (key := key_of(settings, name, at))}
    rule: dict[str, Any] = {}
    for name in _USB_IDS:
        number = _usb_id(given.get(name), is_flag=is_flag)
        if number is None:
            return f"its {name} is not a USB ID of one to four hexadecimal digits"
        rule[name] = f"0x{number:04x}"
    serial = given.get("serial")
    if is_flag and isinstance(serial, int) and not isinstance(serial, bool):
        serial = str(serial)
    if serial is not None and not isinstance(serial, str):
        return "its serial is not a text"
    return {**rule, "serial": serial} if serial else rule


def _usb_id(value: object, *, is_flag: bool) -> int | None:
    """The ID that a value is to squat's plugin; None for none.

    A number without quotes is that number in a file, cut to 16 bits; one like ``1e10`` as well. In a flag it is its
    decimal digits, taken for hexadecimal ones. No device has the ID 0.

    Source: squat/generic-device-plugin 0.1 ``deviceplugin/usb.go``, ``main.go``.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not is_flag:
            return (int(value) & _USB_IDS_MASK or None) if 0 <= value < _MOST_NUMBER else None
        digits = str(value)
        return int(digits, 16) if _USB_ID.fullmatch(digits) else None
    if isinstance(value, str) and _USB_ID.fullmatch(value):
        return int(value, 16)
    return None


def _rule(settings: ForeignSettings, at: FieldPath) -> dict[str, Any] | str:
    """A path with its settings; a text says why it cannot be served."""
    given = {name: settings.at(*at, key) for name in _PATH_FIELDS if (key := key_of(settings, name, at))}
    rule = {
        name: value.strip() if isinstance(value, str) else value for name, value in given.items() if value is not None
    }
    path, kind = rule.get("path"), rule.get("type", "Device")
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable():
        return "a path has no `path` from the root"
    if kind not in _TYPES:
        return f"{path}: its type is neither Device nor Mount, so that squat's plugin gives an empty device"
    if any(not isinstance(rule.get(name, ""), str) for name in ("mountPath", "permissions")):
        return f"{path}: mountPath and permissions are texts"
    if not set(str(rule.get("permissions", ""))) <= set("rwm"):
        return f"{path}: permissions are r, w and m"
    if not str(rule.get("mountPath") or "/").startswith("/"):
        return f"{path}: its mountPath is not a path from the root"
    if any(not isinstance(rule.get(name, False), bool) for name in ("readOnly", "optional")):
        return f"{path}: readOnly and optional are true or false"
    if not _is_count(rule.get("limit", 0)):
        return f"{path}: its limit is not a number from 0 on"
    return rule


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def key_of(settings: ForeignSettings, name: str, at: FieldPath = ()) -> str:
    """The key as the file spells it, whose case does not count; empty if it is not there."""
    return next((key for key in settings.keys(*at) if key.lower() == name.lower()), "")
