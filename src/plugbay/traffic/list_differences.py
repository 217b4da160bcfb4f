"""Lists of devices by their difference from the list before, so that a file need not hold each one whole. Pure."""

from __future__ import annotations

from typing import Any

from plugbay.values import dataclass
from plugbay.wire.common_ends import common_prefix, common_suffix
from plugbay.wire.message_values import MessageValue


@dataclass(frozen=True, slots=True)
class MessageDifference:
    """A message beside another.

    Attributes:
        kept: the numbers of bytes, at the start and at the end, that are those of the other.
        between: the bytes between them.
    """

    kept: tuple[int, int]
    between: bytes

    def whole(self, before: bytes) -> bytes:
        """The message, from the other one.

        Raises:
            ValueError: ``kept`` are not two parts of that.
        """
        first, last = self.kept
        if first < 0 or last < 0 or first + last > len(before):
            raise ValueError(f'"kept" is {first} and {last} bytes of a list of {len(before)}')
        return before[:first] + self.between + before[len(before) - last :]


def message_difference(before: bytes, message: bytes) -> MessageDifference:
    """The difference of ``message`` from ``before``."""
    first = common_prefix(before, message)
    last = common_suffix(before, message, first)
    return MessageDifference((first, last), message[first : len(message) - last])


@dataclass(frozen=True, slots=True)
class ListDifference:
    """A list beside the one before it.

    Attributes:
        told: the devices that changed, and the IDs of those that are gone, for people.
    """

    message: MessageDifference
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
        changed = [each for name, each in devices.items() if devices_before.get(name) != each]
        gone = [name for name in devices_before if name not in devices]
        told: MessageValue = {"devices": changed, **({"gone": gone} if gone else {})}
        return ListDifference(message_difference(before, message), told)

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
        self._last[call] = message = MessageDifference((first, last), between).whole(before)
        return message

    def end(self, call: int) -> None:
        """Forget a call, which has ended."""
        self._last.pop(call, None)
        self._devices.pop(call, None)
