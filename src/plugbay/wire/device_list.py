"""ListAndWatch messages: written whole, read by difference.

Every message is the complete list, so a manager that converts each device anew pays for 10,000 of them when one
turns unhealthy. `DeviceListReader` looks where the bytes differ from those of the list before, and reads only there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from google.protobuf.message import DecodeError

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, ListedDevice
from plugbay.values import dataclass
from plugbay.wire.common_ends import common_prefix, common_suffix
from plugbay.wire.convert import device_from_pb, device_to_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.repeated import element_ends


@dataclass(frozen=True, slots=True)
class NewList:
    """The message names other devices than the one before, or is the first."""

    devices: Sequence[ListedDevice]


@dataclass(frozen=True, slots=True)
class ChangedDevices:
    """The message names the same devices in the same order, each once; these differ in health or topology."""

    devices: Sequence[ListedDevice]


def encode_devices(devices: Iterable[Device]) -> bytes:
    return pb.ListAndWatchResponse(devices=[device_to_pb(device) for device in devices]).SerializeToString()


class _Part(NamedTuple):
    """The devices of a message that are not those of the message before.

    Attributes:
        first: the index of the first one, in both.
        last: the index behind the last one, in the message before.
        start: where the first one begins, in both.
        ends: where each of them ends.
    """

    first: int
    last: int
    start: int
    ends: list[int]


class DeviceListReader:
    """Reads the messages of one ListAndWatch stream."""

    def __init__(self) -> None:
        self._message = b""
        self._ends: list[int] = []
        self._devices: list[ListedDevice] = []
        self._started = False
        self._distinct = True

    def read(self, message: bytes) -> NewList | ChangedDevices:
        """The list in ``message``, compared with the previous one.

        Raises:
            RpcFailed: no ListAndWatchResponse, or text in it is not UTF-8.
        """
        part = self._part(message)
        if part is None:  # it has a field that we do not know, or is broken: protobuf can tell
            message = _known_fields(message)
            part = _Part(0, len(self._ends), 0, element_ends(message, 0, len(message)) or [])
        stop = part.ends[-1] if part.ends else part.start
        read = _parse(message[part.start : stop]).devices  # all of it, so that a bad device is never half applied
        before = _cut(self._message, part.start, self._ends[part.first : part.last])
        chunks = _cut(message, part.start, part.ends)
        old = self._devices[part.first : part.last]
        self._put(message, part)
        if self._started and len(before) == len(chunks):
            changed = [index for index, chunk in enumerate(chunks) if chunk != before[index]]
            fresh = [device_from_pb(read[index]) for index in changed]
            same_ids = all(device.id == old[index].id for index, device in zip(changed, fresh, strict=True))
            for index, device in zip(changed, fresh, strict=True):
                self._devices[part.first + index] = device
            return ChangedDevices(fresh) if same_ids and self._distinct else self._new_list()
        known = dict(zip(before, old, strict=True))
        self._devices[part.first : part.last] = [
            known.get(chunk) or device_from_pb(device) for chunk, device in zip(chunks, read, strict=True)
        ]
        self._started = True
        return self._new_list()

    def _part(self, message: bytes) -> _Part | None:
        """Where ``message`` differs; None if its devices cannot be found there.

        Up to where the bytes agree, and from where they agree to their ends, both messages have the same devices: if a
        device of both begins there.
        """
        first = bisect_right(self._ends, common_prefix(self._message, message))
        start = self._ends[first - 1] if first else 0
        agreed = max(start, len(self._message) - common_suffix(self._message, message, start))
        last = first if agreed == start else bisect_left(self._ends, agreed, first) + 1
        stop = (self._ends[last - 1] if last else 0) + len(message) - len(self._message)
        ends = element_ends(message, start, stop)
        return None if ends is None else _Part(first, last, start, ends)

    def _put(self, message: bytes, part: _Part) -> None:
        """Keep ``message`` for the comparison with the next one."""
        longer = len(message) - len(self._message)
        behind = self._ends[part.last :]
        self._ends[part.first :] = part.ends + ([end + longer for end in behind] if longer else behind)
        self._message = message

    def _new_list(self) -> NewList:
        self._distinct = len({device.id for device in self._devices}) == len(self._devices)
        return NewList(tuple(self._devices))


def _cut(message: bytes, start: int, ends: Sequence[int]) -> list[bytes]:
    return [message[begin:end] for begin, end in pairwise((start, *ends))]


def _known_fields(message: bytes) -> bytes:
    """``message`` without what we do not know, which protobuf can skip.

    Raises:
        RpcFailed: as `DeviceListReader.read`.
    """
    parsed = _parse(message)
    parsed.DiscardUnknownFields()
    return parsed.SerializeToString()


def _parse(message: bytes) -> pb.ListAndWatchResponse:
    try:
        return pb.ListAndWatchResponse.FromString(message)
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from error
