"""Our descriptors are the wire contract of kubelet 1.36: tables written down independently of the ``.proto`` files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from plugbay.wire.pool import messages

Fields = Mapping[int, tuple[str, str, str]]
"""Number to name, type and label: empty, ``repeated``, ``optional``, or ``map`` from string to the type."""

DEVICE_PLUGIN: Final[Mapping[str, Fields]] = {
    "DevicePluginOptions": {
        1: ("pre_start_required", "bool", ""),
        2: ("get_preferred_allocation_available", "bool", ""),
        101: ("post_stop_required", "bool", ""),
        102: ("deallocate_required", "bool", ""),
    },
    "RegisterRequest": {
        1: ("version", "string", ""),
        2: ("endpoint", "string", ""),
        3: ("resource_name", "string", ""),
        4: ("options", "v1beta1.DevicePluginOptions", ""),
    },
    "Empty": {},
    "ListAndWatchResponse": {1: ("devices", "v1beta1.Device", "repeated")},
    "Device": {
        1: ("ID", "string", ""),
        2: ("health", "string", ""),
        3: ("topology", "v1beta1.TopologyInfo", ""),
        101: ("health_reason", "string", ""),  # ours
    },
    "TopologyInfo": {1: ("nodes", "v1beta1.NUMANode", "repeated")},
    "NUMANode": {1: ("ID", "int64", "")},
    "PreStartContainerRequest": {1: ("devices_ids", "string", "repeated")},
    "PreStartContainerResponse": {},
    "PreferredAllocationRequest": {
        1: ("container_requests", "v1beta1.ContainerPreferredAllocationRequest", "repeated")
    },
    "ContainerPreferredAllocationRequest": {
        1: ("available_deviceIDs", "string", "repeated"),
        2: ("must_include_deviceIDs", "string", "repeated"),
        3: ("allocation_size", "int32", ""),
    },
    "PreferredAllocationResponse": {
        1: ("container_responses", "v1beta1.ContainerPreferredAllocationResponse", "repeated")
    },
    "ContainerPreferredAllocationResponse": {1: ("deviceIDs", "string", "repeated")},
    "AllocateRequest": {1: ("container_requests", "v1beta1.ContainerAllocateRequest", "repeated")},
    "ContainerAllocateRequest": {1: ("devices_ids", "string", "repeated")},
    "AllocateResponse": {1: ("container_responses", "v1beta1.ContainerAllocateResponse", "repeated")},
    "ContainerAllocateResponse": {
        1: ("envs", "string", "map"),
        2: ("mounts", "v1beta1.Mount", "repeated"),
        3: ("devices", "v1beta1.DeviceSpec", "repeated"),
        4: ("annotations", "string", "map"),
        5: ("cdi_devices", "v1beta1.CDIDevice", "repeated"),
    },
    "Mount": {
        1: ("container_path", "string", ""),
        2: ("host_path", "string", ""),
        3: ("read_only", "bool", ""),
    },
    "DeviceSpec": {
        1: ("container_path", "string", ""),
        2: ("host_path", "string", ""),
        3: ("permissions", "string", ""),
    },
    "CDIDevice": {1: ("name", "string", "")},
    # Ours, off unless both sides ask for them.
    "PostStopContainerRequest": {1: ("devices_ids", "string", "repeated"), 101: ("operation_id", "string", "")},
    "DeallocateRequest": {1: ("container_requests", "v1beta1.ContainerDeallocateRequest", "repeated")},
    "ContainerDeallocateRequest": {
        1: ("devices_ids", "string", "repeated"),
        101: ("operation_id", "string", ""),
        102: ("reason", "v1beta1.DeallocateReason", ""),
    },
}

REGISTRATION: Final[Mapping[str, Fields]] = {
    "InfoRequest": {},
    "PluginInfo": {
        1: ("type", "string", ""),
        2: ("name", "string", ""),
        3: ("endpoint", "string", ""),
        4: ("supported_versions", "string", "repeated"),
    },
    "RegistrationStatus": {1: ("plugin_registered", "bool", ""), 2: ("error", "string", "")},
    "RegistrationStatusResponse": {},
}

POD_RESOURCES: Final[Mapping[str, Fields]] = {
    "ListPodResourcesRequest": {},
    "AllocatableResourcesRequest": {},
    "ListPodResourcesResponse": {1: ("pod_resources", "v1.PodResources", "repeated")},
    "GetPodResourcesRequest": {1: ("pod_name", "string", ""), 2: ("pod_namespace", "string", "")},
    "GetPodResourcesResponse": {1: ("pod_resources", "v1.PodResources", "")},
    "AllocatableResourcesResponse": {
        1: ("devices", "v1.ContainerDevices", "repeated"),
        2: ("cpu_ids", "int64", "repeated"),
        3: ("memory", "v1.ContainerMemory", "repeated"),
    },
    "PodResources": {
        1: ("name", "string", ""),
        2: ("namespace", "string", ""),
        3: ("containers", "v1.ContainerResources", "repeated"),
        4: ("cpu_ids", "int64", "repeated"),
        5: ("memory", "v1.ContainerMemory", "repeated"),
    },
    "ContainerResources": {
        1: ("name", "string", ""),
        2: ("devices", "v1.ContainerDevices", "repeated"),
        3: ("cpu_ids", "int64", "repeated"),
        4: ("memory", "v1.ContainerMemory", "repeated"),
        5: ("dynamic_resources", "v1.DynamicResource", "repeated"),
    },
    "ContainerDevices": {
        1: ("resource_name", "string", ""),
        2: ("device_ids", "string", "repeated"),
        3: ("topology", "v1.TopologyInfo", ""),
    },
    "ContainerMemory": {
        1: ("memory_type", "string", ""),
        2: ("size", "uint64", ""),
        3: ("topology", "v1.TopologyInfo", ""),
    },
    "TopologyInfo": {1: ("nodes", "v1.NUMANode", "repeated")},
    "NUMANode": {1: ("ID", "int64", "")},
    "DynamicResource": {
        2: ("claim_name", "string", ""),
        3: ("claim_namespace", "string", ""),
        4: ("claim_resources", "v1.ClaimResource", "repeated"),
    },
    "ClaimResource": {
        1: ("cdi_devices", "v1.CDIDevice", "repeated"),
        2: ("driver_name", "string", ""),
        3: ("pool_name", "string", ""),
        4: ("device_name", "string", ""),
        5: ("share_id", "string", "optional"),
    },
    "CDIDevice": {1: ("name", "string", "")},
}

POD_RESOURCES_ALPHA: Final[Mapping[str, Fields]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {1: ("pod_resources", "v1alpha1.PodResources", "repeated")},
    "PodResources": {
        1: ("name", "string", ""),
        2: ("namespace", "string", ""),
        3: ("containers", "v1alpha1.ContainerResources", "repeated"),
    },
    "ContainerResources": {1: ("name", "string", ""), 2: ("devices", "v1alpha1.ContainerDevices", "repeated")},
    "ContainerDevices": {1: ("resource_name", "string", ""), 2: ("device_ids", "string", "repeated")},
}

METHODS: Final = {
    "deviceplugin_v1beta1.proto": {
        "/v1beta1.Registration/Register": ("RegisterRequest", "Empty"),
        "/v1beta1.DevicePlugin/GetDevicePluginOptions": ("Empty", "DevicePluginOptions"),
        "/v1beta1.DevicePlugin/ListAndWatch": ("Empty", "stream ListAndWatchResponse"),
        "/v1beta1.DevicePlugin/GetPreferredAllocation": ("PreferredAllocationRequest", "PreferredAllocationResponse"),
        "/v1beta1.DevicePlugin/Allocate": ("AllocateRequest", "AllocateResponse"),
        "/v1beta1.DevicePlugin/PreStartContainer": ("PreStartContainerRequest", "PreStartContainerResponse"),
        "/v1beta1.DevicePlugin/PostStopContainer": ("PostStopContainerRequest", "Empty"),
        "/v1beta1.DevicePlugin/Deallocate": ("DeallocateRequest", "Empty"),
    },
    "pluginregistration_v1.proto": {
        "/pluginregistration.Registration/GetInfo": ("InfoRequest", "PluginInfo"),
        "/pluginregistration.Registration/NotifyRegistrationStatus": (
            "RegistrationStatus",
            "RegistrationStatusResponse",
        ),
    },
    "podresources_v1.proto": {
        "/v1.PodResourcesLister/List": ("ListPodResourcesRequest", "ListPodResourcesResponse"),
        "/v1.PodResourcesLister/GetAllocatableResources": (
            "AllocatableResourcesRequest",
            "AllocatableResourcesResponse",
        ),
        "/v1.PodResourcesLister/Get": ("GetPodResourcesRequest", "GetPodResourcesResponse"),
    },
    "podresources_v1alpha1.proto": {
        "/v1alpha1.PodResourcesLister/List": ("ListPodResourcesRequest", "ListPodResourcesResponse"),
    },
}

FILES: Final = {
    "deviceplugin_v1beta1.proto": DEVICE_PLUGIN,
    "pluginregistration_v1.proto": REGISTRATION,
    "podresources_v1.proto": POD_RESOURCES,
    "podresources_v1alpha1.proto": POD_RESOURCES_ALPHA,
}


@pytest.mark.parametrize("proto", FILES)
def test_messages_are_those_of_the_contract(proto: str) -> None:
    assert {message.name: fields_of(message) for message in file_of(proto).message_type} == FILES[proto]


@pytest.mark.parametrize("proto", METHODS)
def test_methods_are_those_of_the_contract(proto: str) -> None:
    file = file_of(proto)
    found = {
        f"/{file.package}.{service.name}/{method.name}": (
            "stream " * method.client_streaming + unqualified(method.input_type),
            "stream " * method.server_streaming + unqualified(method.output_type),
        )
        for service in file.service
        for method in service.method
    }
    assert found == METHODS[proto]


def test_deallocate_reasons() -> None:
    (enum,) = file_of("deviceplugin_v1beta1.proto").enum_type
    assert {value.number: value.name for value in enum.value} == {
        0: "UNSPECIFIED",
        1: "POD_ENDED",
        2: "ADMISSION_FAILED",
        3: "ORPHANED",
    }


def test_numbers_kept_free() -> None:
    by_name = {message.name: message for message in file_of("deviceplugin_v1beta1.proto").message_type}
    (span,) = by_name["ContainerDeallocateRequest"].reserved_range
    assert (span.start, span.end) == (103, 110)  # the end is exclusive


@pytest.mark.parametrize("proto", FILES)
def test_every_file_is_proto3(proto: str) -> None:
    assert file_of(proto).syntax == "proto3"


def file_of(proto: str) -> FileDescriptorProto:
    some_message = next(value for value in messages(proto).values() if hasattr(value, "DESCRIPTOR"))
    file = FileDescriptorProto()
    some_message.DESCRIPTOR.file.CopyToProto(file)
    return file


def fields_of(message: DescriptorProto) -> Fields:
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    return {field.number: describe(field, maps) for field in message.field}


def describe(field: FieldDescriptorProto, maps: Mapping[str, DescriptorProto]) -> tuple[str, str, str]:
    if entry := maps.get(unqualified(field.type_name)):
        key, value = entry.field
        assert type_of(key) == "string"
        return field.name, type_of(value), "map"
    if field.proto3_optional:
        return field.name, type_of(field), "optional"
    label = "repeated" if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return field.name, type_of(field), label


def type_of(field: FieldDescriptorProto) -> str:
    return field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def unqualified(type_name: str) -> str:
    return type_name.rsplit(".", 1)[-1]
