"""The devices of a resource that are shared: all, a number of them, or a list. Pure.

Source: k8s-device-plugin 0.20 ``api/config/v1/replicas.go``; spec 1.4.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, TypeAlias

from plugbay.documents.go_json import compact
from plugbay.plugins.nvidia.config.fields import FieldValue
from plugbay.values import dataclass

ALL: Final = "all"
_ALLOWED: Final = (
    "all, a number of devices from 1 on, or a list of GPU indices (0), MIG indices (0:1) and UUIDs (GPU-…, MIG-…)"
)
_INDEX: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_MIG_INDEX: Final = re.compile(r"[0-9]{1,9}:[0-9]{1,9}", re.ASCII)
_UUID_TEXT: Final = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_GPU_UUID: Final = re.compile(f"GPU-{_UUID_TEXT}", re.ASCII)
_MIG_UUID: Final = re.compile(rf"MIG-{_UUID_TEXT}|MIG-GPU-{_UUID_TEXT}/[0-9]{{1,9}}/[0-9]{{1,9}}", re.ASCII)


class ReferenceKind(Enum):
    """The way a configuration calls a device."""

    GPU_INDEX = auto()
    MIG_INDEX = auto()
    GPU_UUID = auto()
    MIG_UUID = auto()

    @property
    def is_uuid(self) -> bool:
        return self in (ReferenceKind.GPU_UUID, ReferenceKind.MIG_UUID)


@dataclass(frozen=True, slots=True)
class DeviceReference:
    """A device as a configuration calls it.

    Attributes:
        text: ``0``, ``0:1``, ``GPU-…`` or ``MIG-…``; the number 0 and the text ``0`` are the same reference.
    """

    text: str
    kind: ReferenceKind

    @classmethod
    def parse(cls, text: str) -> DeviceReference:
        """Read a reference; UUIDs have to be complete.

        Raises:
            ValueError: none of the four kinds.
        """
        for kind, pattern in _PATTERNS.items():
            if pattern.fullmatch(text):
                return cls(text, kind)
        raise ValueError(f"unsupported type for device in devices list: {text}, string")


_PATTERNS: Final = {
    ReferenceKind.GPU_INDEX: _INDEX,
    ReferenceKind.MIG_INDEX: _MIG_INDEX,
    ReferenceKind.GPU_UUID: _GPU_UUID,
    ReferenceKind.MIG_UUID: _MIG_UUID,
}


@dataclass(frozen=True, slots=True)
class AllDevices:
    """Every device of the resource."""


ALL_DEVICES: Final = AllDevices()


@dataclass(frozen=True, slots=True)
class FirstDevices:
    """The first ``count`` devices, by their indices.

    Raises:
        ValueError: ``count`` is less than 1.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"devices set as '{self.count}' but a count of devices must be > 0")


@dataclass(frozen=True, slots=True)
class ListedDevices:
    """The devices of these references.

    Raises:
        ValueError: there is none.
    """

    references: tuple[DeviceReference, ...]

    def __post_init__(self) -> None:
        if not self.references:
            raise ValueError("devices set as an empty list, which selects no device")


DeviceSelection: TypeAlias = "AllDevices | FirstDevices | ListedDevices"


def printed_selection(selection: DeviceSelection) -> str | int | list[str]:
    """The selection as the printed configuration shows it."""
    match selection:
        case AllDevices():
            return ALL
        case FirstDevices(count):
            return count
        case ListedDevices(references):
            return [reference.text for reference in references]


def read_selection(node: FieldValue | None) -> DeviceSelection:
    """Read the field ``devices``; without it, all devices.

    Raises:
        InvalidNvidiaConfig: at its place.
    """
    if node is None:
        return ALL_DEVICES
    try:
        return _read(node)
    except ValueError as error:
        raise node.error(str(error), _ALLOWED) from None


def _read(node: FieldValue) -> DeviceSelection:
    match node.value:
        case str() as text:
            if text != ALL:
                raise ValueError(f"devices set as '{text}' but the only valid string input is 'all'")
            return ALL_DEVICES
        case list():
            items = [item for item in node.items() if item.value is not None or not node.page.is_lenient]
            if not items and node.page.is_lenient:
                return ALL_DEVICES
            return ListedDevices(tuple(map(_reference, items)))
        case bool() | dict():
            raise ValueError(f"unrecognized type for devices spec: {compact(node.value)}")
        case _:
            return FirstDevices(node.integer())


def _reference(node: FieldValue) -> DeviceReference:
    value = node.value
    try:
        if isinstance(value, str):
            return DeviceReference.parse(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value == value // 1:
            return DeviceReference.parse(str(node.integer()))
        raise ValueError(f"unsupported type for device in devices list: {compact(value)}")
    except ValueError as error:
        raise node.error(str(error), _ALLOWED) from None
