"""ListAndWatch messages: written whole, read by difference.

Every message is the complete list, so a manager that converts each device anew pays for 10,000 of them when one
turns unhealthy. `DeviceListReader` cuts the raw message into the encoded devices, which costs a fraction of that, and
converts the ones whose bytes are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, ListedDevice
from plugbay.wire.convert import device_from_pb, device_to_pb
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.repeated import elements


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


class DeviceListReader:
    """Reads the messages of one ListAndWatch stream."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._devices: list[ListedDevice] = []
        self._started = False
        self._distinct = True

    def read(self, message: bytes) -> NewList | ChangedDevices:
        """The list in ``message``, compared with the previous one.

        Raises:
            RpcFailed: no ListAndWatchResponse, or text in it is not UTF-8.
        """
        try:
            pb.ListAndWatchResponse.FromString(message)  # all of it, so that a bad device is never half applied
        except DecodeError as error:
            raise RpcFailed(RpcCode.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from error
        chunks = _split(message)
        before, self._chunks = self._chunks, chunks
        if self._started and len(before) == len(chunks):
            changed = [index for index, chunk in enumerate(chunks) if chunk != before[index]]
            fresh = [_decode(chunks[index]) for index in changed]
            same_ids = all(device.id == self._devices[index].id for index, device in zip(changed, fresh, strict=True))
            for index, device in zip(changed, fresh, strict=True):
                self._devices[index] = device
            return ChangedDevices(fresh) if same_ids and self._distinct else self._new_list()
        known = dict(zip(before, self._devices, strict=True))
        self._devices = [known.get(chunk) or _decode(chunk) for chunk in chunks]
        self._started = True
        return self._new_list()

    def _new_list(self) -> NewList:
        self._distinct = len({device.id for device in self._devices}) == len(self._devices)
        return NewList(tuple(self._devices))


def _decode(chunk: bytes) -> ListedDevice:
    return device_from_pb(pb.Device.FromString(chunk))


def _split(message: bytes) -> list[bytes]:
    """The encoded devices of an encoded ListAndWatchResponse, in order."""
    if (devices := elements(message)) is not None:
        return devices
    # The message has a field that we do not know: protobuf can skip it.
    return [device.SerializeToString() for device in pb.ListAndWatchResponse.FromString(message).devices]
