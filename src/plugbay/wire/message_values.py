"""Messages between a kubelet and a plugin as plain values, and without the fields that an old kubelet does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from plugbay.errors import UsageError
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.generated import pluginregistration_v1_pb2 as registration_pb

MessageValue = dict[str, Any]
"""A message by field names; fields that are not set are left out, and unknown fields are named by their numbers."""


@dataclass(frozen=True, slots=True)
class MethodMessages:
    """The messages of one method."""

    request: type[Message]
    answer: type[Message]


REGISTER: Final = "/v1beta1.Registration/Register"
LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"
OPTIONS: Final = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
REGISTRATION_STATUS: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"
METHODS: Final[Mapping[str, MethodMessages]] = {
    REGISTER: MethodMessages(pb.RegisterRequest, pb.Empty),
    OPTIONS: MethodMessages(pb.Empty, pb.DevicePluginOptions),
    LIST_AND_WATCH: MethodMessages(pb.Empty, pb.ListAndWatchResponse),
    "/v1beta1.DevicePlugin/GetPreferredAllocation": MethodMessages(
        pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
    ),
    ALLOCATE: MethodMessages(pb.AllocateRequest, pb.AllocateResponse),
    "/v1beta1.DevicePlugin/PreStartContainer": MethodMessages(
        pb.PreStartContainerRequest, pb.PreStartContainerResponse
    ),
    "/v1beta1.DevicePlugin/PostStopContainer": MethodMessages(pb.PostStopContainerRequest, pb.Empty),
    "/v1beta1.DevicePlugin/Deallocate": MethodMessages(pb.DeallocateRequest, pb.Empty),
    "/pluginregistration.Registration/GetInfo": MethodMessages(registration_pb.InfoRequest, registration_pb.PluginInfo),
    REGISTRATION_STATUS: MethodMessages(registration_pb.RegistrationStatus, registration_pb.RegistrationStatusResponse),
}
"""Every method between a kubelet and a plugin, by its path."""

KubeletVersion = tuple[int, int]
"""A minor version of Kubernetes, such as ``(1, 28)``."""
_NEVER: Final[KubeletVersion] = (2**31, 0)
_SINCE: Final[Mapping[str, KubeletVersion]] = {
    "v1beta1.ContainerAllocateResponse.cdi_devices": (1, 29),
    "v1beta1.DevicePluginOptions.post_stop_required": _NEVER,
    "v1beta1.DevicePluginOptions.deallocate_required": _NEVER,
    "v1beta1.Device.health_reason": _NEVER,
    "v1beta1.PostStopContainerRequest.operation_id": _NEVER,
    "v1beta1.ContainerDeallocateRequest.operation_id": _NEVER,
    "v1beta1.ContainerDeallocateRequest.reason": _NEVER,
}
"""The first kubelet that heeds a field without a feature gate; fields that 1.20 knows are not listed.

Source: KEP-4009, gate ``DevicePluginCDIDevices``: alpha in 1.28, beta in 1.29. Fields from 101 on are ours alone.
"""


def method_name(path: str) -> str:
    """The last word of a method's path, such as ``Allocate``."""
    return path.rpartition("/")[2]


def known_method(name: str) -> str:
    """The name of a method as it is spelled, for ``name`` in any case of letters.

    Raises:
        UsageError: there is no such method.
    """
    known = {method_name(path).lower(): method_name(path) for path in METHODS}
    if name.lower() not in known:
        raise UsageError(f'there is no method "{name}"; choose from {", ".join(known.values())}')
    return known[name.lower()]


def read_message(path: str, encoded: bytes, *, is_answer: bool) -> Message | None:
    """The message; None when the method is unknown or the bytes are not such a message."""
    messages = METHODS.get(path)
    if messages is None:
        return None
    try:
        return (messages.answer if is_answer else messages.request).FromString(encoded)
    except DecodeError:
        return None


def message_value(path: str, encoded: bytes, *, is_answer: bool) -> MessageValue | None:
    """The message as plain values; None when the method is unknown or the bytes are not such a message."""
    message = read_message(path, encoded, is_answer=is_answer)
    return None if message is None else _value(message)


def without_newer_fields(path: str, encoded: bytes, version: KubeletVersion | None, *, is_answer: bool) -> bytes:
    """The message without the fields that kubelets of ``version``, by default of any version, do not heed.

    Bytes that cannot be read are returned as they are, and so is a message without such fields.
    """
    message = read_message(path, encoded, is_answer=is_answer)
    limit = version or (_NEVER[0] - 1, 0)
    if message is None or not _clear(message, lambda field: _SINCE.get(field, (0, 0)) > limit):
        return encoded
    return message.SerializeToString()


def with_masked_values(path: str, encoded: bytes, masked: Callable[[str, str], str]) -> bytes:
    """An Allocate answer with the values of variables and annotations that ``masked`` makes of name and value.

    An answer that cannot be read becomes as many bytes 0xFF, which cannot be read either; texts in fields that we do
    not know are left out with all such fields. Every other message is returned as it is.
    """
    if path != ALLOCATE:
        return encoded
    message = read_message(path, encoded, is_answer=True)
    if not isinstance(message, pb.AllocateResponse):
        return b"\xff" * len(encoded)
    has_masked = any(map(_has_unknown_text, (message, *message.container_responses)))
    if has_masked:
        message.DiscardUnknownFields()
    for container in message.container_responses:
        for values in (container.envs, container.annotations):
            for name, value in list(values.items()):
                if (shown := masked(name, value)) != value:
                    values[name] = shown
                    has_masked = True
    return message.SerializeToString() if has_masked else encoded


def with_masked_error(path: str, encoded: bytes, masked: Callable[[str], str]) -> bytes:
    """A kubelet's word on a registration, with the error that ``masked`` makes of it; any other message as it is."""
    if path != REGISTRATION_STATUS:
        return encoded
    message = read_message(path, encoded, is_answer=False)
    if not isinstance(message, registration_pb.RegistrationStatus):
        return b"\xff" * len(encoded)
    if (shown := masked(message.error)) == message.error:
        return encoded
    message.error = shown
    return message.SerializeToString()


def _clear(message: Message, is_newer: Callable[[str], bool]) -> bool:
    """Clear fields, at any depth; return whether there were any."""
    has_cleared = False
    for field, value in message.ListFields():
        if is_newer(field.full_name):
            message.ClearField(field.name)
            has_cleared = True
        else:
            for each in _messages(field, value):
                has_cleared |= _clear(each, is_newer)
    return has_cleared


def _messages(field: FieldDescriptor, value: Any) -> Iterator[Message]:
    if field.message_type is None or _is_map(field):
        return
    yield from [value] if isinstance(value, Message) else value


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _has_unknown_text(message: Message) -> bool:
    return any(not isinstance(unknown.data, int) for unknown in _unknown_fields(message))


def _unknown_fields(message: Message) -> Any:
    from google.protobuf.unknown_fields import UnknownFieldSet  # imported here: only onlookers read unknown fields

    return UnknownFieldSet(message)  # types-protobuf does not know that it can be iterated over


def _value(message: Message) -> MessageValue:
    value: MessageValue = {field.name: _field(field, content) for field, content in message.ListFields()}
    for unknown in _unknown_fields(message):
        value.setdefault(f"unknown field {unknown.field_number}", []).append(_unknown(unknown.data))
    return value


def _field(field: FieldDescriptor, content: Any) -> Any:
    if _is_map(field):
        return dict(sorted(content.items()))
    if field.message_type is not None:
        return _value(content) if isinstance(content, Message) else [_value(each) for each in content]
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(content)
        return known.name if known is not None else content
    return content if isinstance(content, str | int | bool) else list(content)


def _unknown(content: Any) -> Any:
    """A number, or bytes as a text; a nested group is told by its type."""
    if isinstance(content, int):
        return content
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else type(content).__name__
