"""Protobuf messages to values and back."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.devices import Device, ListedDevice, PluginOptions
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.health import is_reason
from plugbay.model.ids import DeviceId
from plugbay.model.releases import ReleaseReason
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb

_REASONS: Final = {
    ReleaseReason.UNSPECIFIED: pb.UNSPECIFIED,
    ReleaseReason.POD_ENDED: pb.POD_ENDED,
    ReleaseReason.ADMISSION_FAILED: pb.ADMISSION_FAILED,
    ReleaseReason.ORPHANED: pb.ORPHANED,
}


def reason_to_pb(reason: ReleaseReason) -> pb.DeallocateReason.ValueType:
    return _REASONS[reason]


def reason_from_pb(number: int) -> ReleaseReason:
    """The reason of a release; an unknown one, from a newer manager, counts as unspecified."""
    return next((reason for reason, known in _REASONS.items() if known == number), ReleaseReason.UNSPECIFIED)


def options_to_pb(options: PluginOptions) -> pb.DevicePluginOptions:
    return pb.DevicePluginOptions(
        pre_start_required=options.pre_start_required,
        get_preferred_allocation_available=options.get_preferred_allocation_available,
        post_stop_required=options.post_stop_required,
        deallocate_required=options.deallocate_required,
    )


def options_from_pb(message: pb.DevicePluginOptions) -> PluginOptions:
    return PluginOptions(
        pre_start_required=message.pre_start_required,
        get_preferred_allocation_available=message.get_preferred_allocation_available,
        post_stop_required=message.post_stop_required,
        deallocate_required=message.deallocate_required,
    )


def device_to_pb(device: Device) -> pb.Device:
    """A device as v1beta1 has it, with two health texts: unknown counts as unhealthy. Our own nodes get the reason."""
    message = pb.Device(ID=device.id, health="Healthy" if device.health.is_healthy else "Unhealthy")
    if not device.health.is_healthy and device.health.reason:
        message.health_reason = device.health.reason
    for node in sorted(device.numa_nodes):
        message.topology.nodes.add(ID=node)
    return message


def device_from_pb(message: pb.Device) -> ListedDevice:
    nodes = tuple(node.ID for node in message.topology.nodes) if message.HasField("topology") else None
    reason = message.health_reason if is_reason(message.health_reason) else ""
    return ListedDevice(DeviceId(message.ID), message.health, nodes, reason)


def edits_to_pb(edits: ContainerEdits) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=edits.env,
        mounts=[
            pb.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in edits.mounts
        ],
        devices=[
            pb.DeviceSpec(container_path=node.container_path, host_path=node.host_path, permissions=node.permissions)
            for node in edits.device_nodes
        ],
        annotations=edits.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in edits.cdi_devices],
    )


def without_cdi_devices(encoded: bytes) -> bytes:
    """An encoded ContainerAllocateResponse without its CDI device names; other fields survive, also unknown ones."""
    response = pb.ContainerAllocateResponse.FromString(encoded)
    response.ClearField("cdi_devices")
    return response.SerializeToString(deterministic=True)


def decode_edits(response: bytes) -> ContainerEdits:
    """The edits in an encoded ContainerAllocateResponse. Nothing in it is checked; a kubelet checks nothing either.

    Raises:
        RpcFailed: the bytes are not such a message.
    """
    try:
        message = pb.ContainerAllocateResponse.FromString(response)
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"not a ContainerAllocateResponse: {error}") from error
    return ContainerEdits(
        env=dict(message.envs),
        mounts=tuple(
            Mount(item.host_path, container_path=item.container_path, read_only=item.read_only)
            for item in message.mounts
        ),
        device_nodes=tuple(
            DeviceNode(item.host_path, container_path=item.container_path, permissions=item.permissions)
            for item in message.devices
        ),
        annotations=dict(message.annotations),
        cdi_devices=tuple(item.name for item in message.cdi_devices),
    )
