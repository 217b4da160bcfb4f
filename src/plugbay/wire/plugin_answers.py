"""Answers of a plugin, encoded, for players of plugins that have no others."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb


def preferred_devices(devices: Iterable[str]) -> bytes:
    """A GetPreferredAllocation answer for one container."""
    container = pb.ContainerPreferredAllocationResponse(deviceIDs=devices)
    return pb.PreferredAllocationResponse(container_responses=[container]).SerializeToString()


def nothing_allocated() -> bytes:
    """An Allocate answer that gives one container nothing."""
    return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse()]).SerializeToString()


def with_preferences(options: bytes) -> bytes:
    """A GetDevicePluginOptions answer by which the plugin is asked which devices it prefers; else as ``options``."""
    try:
        answer = pb.DevicePluginOptions.FromString(options)
    except DecodeError:
        return options
    answer.get_preferred_allocation_available = True
    return answer.SerializeToString()
