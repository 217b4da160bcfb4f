"""Lists of devices by their difference from the list before, so that a file need not hold each one whole. Pure."""

from __future__ import annotations

from typing import Any

from plugbay.values import dataclass
from plugbay.wire.common_ends import common_prefix, common_suffix
from plugbay.wire.message_values import MessageValue


@dataclass(frozen=True, slots=True)
class ListDifference:
    """A list beside the one before it.

    Attributes:
        kept: the numbers of bytes, at the start and at the end, that are those of the list before.
        between: the bytes between them.
        told: the devices that changed, and the IDs of those that are gone, for people.
    """

    kept: tuple[int, int]
    between: bytes
    told: MessageValue


class ListDifferences:
    """The last list of each call of ListAndWatch that is open."""

    def __init__(self) -> None:
        self._last: dict[int, bytes] = {}
        self._devices: dict[int, dict[str, Any]] = {}

    def difference(self, call: int, message: bytes, value: MessageValue | None) -> ListDifference | None:
        """The difference of the next list of a call; None for the first one, which has to be written whole."""
        before, devices_before = self._last.get(call), self._devices.get(call, {})
        devices = {str(each.get("ID", "")): each for each in (value or {}).get("devices", [])}
        self._last[call], self._devices[call] = message, devices
        if before is None:
            return None
        first = common_prefix(before, message)
        last = common_suffix(before, message, first)
        changed = [each for name, each in devices.items() if devices_before.get(name) != each]
        gone = [name for name in devices_before if name not in devices]
        told: MessageValue = {"devices": changed, **({"gone": gone} if gone else {})}
        return ListDifference((first, last), message[first : len(message) - last], told)

    def whole(self, call: int, between: bytes, kept: Any) -> bytes:
        """The next list of a call, whole.

        Args:
            kept: None for a list that is whole already.

        Raises:
            ValueError: there is no list before, or ``kept`` are not two parts of it.
        """
        if kept is None:
            self._last[call] = between
            return between
        before = self._last.get(call)
        if before is None:
            raise ValueError(f"this list says what changed, and no list of call {call} is before it")
        first, last = map(int, kept)
        if first < 0 or last < 0 or first + last > len(before):
            raise ValueError(f'"kept" is {first} and {last} bytes of a list of {len(before)}')
        self._last[call] = message = before[:first] + between + before[len(before) - last :]
        return message

    def end(self, call: int) -> None:
        """Forget a call, which has ended."""
        self._last.pop(call, None)
        self._devices.pop(call, None)
