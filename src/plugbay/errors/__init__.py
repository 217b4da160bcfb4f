"""Every exception plugbay raises on purpose, split by who must act: a module for each.

::

    PlugbayError
    ├── AuthorError                 the plugin's author: the plugin said something no kubelet can use
    │   ├── InvalidResourceName
    │   ├── InvalidDeviceId
    │   ├── InvalidDevice
    │   ├── DuplicateDevice
    │   ├── DuplicateDeviceName
    │   ├── InvalidHealth
    │   ├── InvalidVersion
    │   ├── ConflictingEdits
    │   ├── UnknownDevice
    │   ├── HookFailed
    │   ├── DeviceListTooLarge
    │   ├── DuplicateResource
    │   ├── AllocationError
    │   │   ├── HardwareInUse
    │   │   ├── DevicesNotReleased
    │   │   └── PartialAllocationError
    │   ├── CannotRelease
    │   ├── DevicesStillUsed
    │   ├── DiscoveryFailed
    │   ├── InvalidDiscovery
    │   ├── DiscoveryEnded
    │   ├── InvalidPlugin
    │   ├── InvalidWatch
    │   ├── InvalidHealthCheck
    │   ├── CannotIsolate
    │   ├── NotInCdi
    │   └── PluginLoadError
    ├── OperatorError               who runs the program: files, paths, rights, flags
    │   ├── UsageError
    │   ├── NeedsRefused
    │   ├── PathTooLong
    │   ├── PathUnusable
    │   ├── RootInUse
    │   ├── LockHeld
    │   ├── SocketInUse
    │   ├── InstanceUnreadable
    │   ├── KubeletIsLive
    │   ├── StoreUnusable
    │   ├── CorruptCheckpoint
    │   ├── CheckpointNotOurs
    │   ├── InvalidDocument
    │   ├── InvalidGenericConfig
    │   ├── InvalidNvidiaConfig
    │   ├── GpusUnusable
    │   ├── ClusterUnusable
    │   ├── InvalidCdiName
    │   ├── InvalidCdiSpec
    │   ├── UnresolvableCdiDevices
    │   ├── CdiInjectionFailed
    │   ├── EngineUnusable
    │   ├── ContainerEngineUnusable
    │   ├── UnusableTopology
    │   ├── InvalidNetworkConfig
    │   ├── NetworkNotFound
    │   ├── NetworkPluginMissing
    │   ├── NamespaceUnusable
    │   ├── NetworkBusy
    │   ├── NodeUnreachable
    │   ├── DriverUnusable
    │   └── CompilerUnusable
    ├── PodError                    the pod's author
    │   ├── InvalidManifest
    │   ├── InvalidQuantity
    │   ├── PodNotFound
    │   ├── PodExists
    │   ├── PodForbidden
    │   ├── PodNotBindable
    │   ├── ImmutablePod
    │   ├── ContainerNotFound
    │   ├── VolumeUnusable
    │   ├── ContainerStartError
    │   ├── SandboxFailed
    │   ├── InstanceNotFound
    │   ├── ExecFailed
    │   │   └── AttachFailed
    │   ├── PortUnreachable
    │   ├── InvalidBandwidth
    │   └── InvalidAttachment
    ├── AdmissionError              the pod cannot have its devices; texts are the kubelet's
    │   ├── ChangedRequest
    │   ├── UnregisteredResource
    │   │   └── ExpiredResource
    │   ├── NoHealthyDevices
    │   ├── PreviousDevicesUnhealthy
    │   ├── InsufficientDevices
    │   ├── UnknownEndpoint
    │   ├── NoContainerResponse
    │   ├── PreferredAllocationFailed
    │   ├── AllocateFailed
    │   │   └── AllocateUnsettled
    │   ├── PostStopUnconfirmed
    │   ├── PreStartFailed
    │   ├── NoDevicesAllocated
    │   ├── EndpointNotFound
    │   ├── CheckpointNotWritten
    │   ├── EndpointStopped
    │   └── TopologyMisaligned
    └── PeerError                   the program at the other end of a socket or a pipe
        ├── RpcFailed
        ├── CheckpointUnread
        ├── RegistrationRefused
        ├── RequestRefused
        ├── InvalidNetworkResult
        ├── NetworkPluginFailed
        ├── PluginProgramFailed
        └── DriverCallFailed

May live here: exceptions, their sentences, and how these write names and places.
May not: anything that decides, reads or waits.
"""

from plugbay.errors.admission import (
    AdmissionError,
    AllocateFailed,
    AllocateUnsettled,
    ChangedRequest,
    CheckpointNotWritten,
    EndpointNotFound,
    EndpointStopped,
    ExpiredResource,
    InsufficientDevices,
    NoContainerResponse,
    NoDevicesAllocated,
    NoHealthyDevices,
    PostStopUnconfirmed,
    PreferredAllocationFailed,
    PreStartFailed,
    PreviousDevicesUnhealthy,
    TopologyMisaligned,
    UnknownEndpoint,
    UnregisteredResource,
)
from plugbay.errors.author import (
    AllocationError,
    AuthorError,
    CannotIsolate,
    CannotRelease,
    ConflictingEdits,
    DeviceListTooLarge,
    DevicesNotReleased,
    DevicesStillUsed,
    DiscoveryEnded,
    DiscoveryFailed,
    DuplicateDevice,
    DuplicateDeviceName,
    DuplicateResource,
    HardwareInUse,
    HookFailed,
    InvalidDevice,
    InvalidDeviceId,
    InvalidDiscovery,
    InvalidHealth,
    InvalidHealthCheck,
    InvalidPlugin,
    InvalidResourceName,
    InvalidVersion,
    InvalidWatch,
    NotInCdi,
    PartialAllocationError,
    PluginLoadError,
    UnknownDevice,
)
from plugbay.errors.operator import (
    CdiInjectionFailed,
    CheckpointNotOurs,
    ClusterUnusable,
    CompilerUnusable,
    ContainerEngineUnusable,
    CorruptCheckpoint,
    DriverUnusable,
    EngineUnusable,
    GpusUnusable,
    InstanceUnreadable,
    InvalidCdiName,
    InvalidCdiSpec,
    InvalidDocument,
    InvalidNetworkConfig,
    KubeletIsLive,
    LockHeld,
    NamespaceUnusable,
    NeedsRefused,
    NetworkBusy,
    NetworkNotFound,
    NetworkPluginMissing,
    NodeUnreachable,
    OperatorError,
    PathTooLong,
    PathUnusable,
    RootInUse,
    SocketInUse,
    StoreUnusable,
    UnresolvableCdiDevices,
    UnusableTopology,
    UsageError,
)
from plugbay.errors.operator_config import InvalidGenericConfig, InvalidNvidiaConfig
from plugbay.errors.peer import (
    CheckpointUnread,
    DriverCallFailed,
    InvalidNetworkResult,
    NetworkPluginFailed,
    PeerError,
    PluginProgramFailed,
    RegistrationRefused,
    RequestRefused,
    RpcCode,
    RpcFailed,
)
from plugbay.errors.pod import (
    AttachFailed,
    ContainerNotFound,
    ContainerStartError,
    ExecFailed,
    ImmutablePod,
    InstanceNotFound,
    InvalidAttachment,
    InvalidBandwidth,
    InvalidManifest,
    InvalidQuantity,
    PodError,
    PodExists,
    PodForbidden,
    PodNotBindable,
    PodNotFound,
    PortUnreachable,
    SandboxFailed,
    VolumeUnusable,
)
from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import quote

__all__ = [
    "AdmissionError",
    "AllocateFailed",
    "AllocateUnsettled",
    "AllocationError",
    "AttachFailed",
    "AuthorError",
    "CannotIsolate",
    "CannotRelease",
    "CdiInjectionFailed",
    "ChangedRequest",
    "CheckpointNotOurs",
    "CheckpointNotWritten",
    "CheckpointUnread",
    "ClusterUnusable",
    "CompilerUnusable",
    "ConflictingEdits",
    "ContainerEngineUnusable",
    "ContainerNotFound",
    "ContainerStartError",
    "CorruptCheckpoint",
    "DeviceListTooLarge",
    "DevicesNotReleased",
    "DevicesStillUsed",
    "DiscoveryEnded",
    "DiscoveryFailed",
    "DriverCallFailed",
    "DriverUnusable",
    "DuplicateDevice",
    "DuplicateDeviceName",
    "DuplicateResource",
    "EndpointNotFound",
    "EndpointStopped",
    "EngineUnusable",
    "ExecFailed",
    "ExpiredResource",
    "GpusUnusable",
    "HardwareInUse",
    "HookFailed",
    "ImmutablePod",
    "InstanceNotFound",
    "InstanceUnreadable",
    "InsufficientDevices",
    "InvalidAttachment",
    "InvalidBandwidth",
    "InvalidCdiName",
    "InvalidCdiSpec",
    "InvalidDevice",
    "InvalidDeviceId",
    "InvalidDiscovery",
    "InvalidDocument",
    "InvalidGenericConfig",
    "InvalidHealth",
    "InvalidHealthCheck",
    "InvalidManifest",
    "InvalidNetworkConfig",
    "InvalidNetworkResult",
    "InvalidNvidiaConfig",
    "InvalidPlugin",
    "InvalidQuantity",
    "InvalidResourceName",
    "InvalidVersion",
    "InvalidWatch",
    "KubeletIsLive",
    "LockHeld",
    "NamespaceUnusable",
    "NeedsRefused",
    "NetworkBusy",
    "NetworkNotFound",
    "NetworkPluginFailed",
    "NetworkPluginMissing",
    "NoContainerResponse",
    "NoDevicesAllocated",
    "NoHealthyDevices",
    "NodeUnreachable",
    "NotInCdi",
    "OperatorError",
    "PartialAllocationError",
    "PathTooLong",
    "PathUnusable",
    "PeerError",
    "PlugbayError",
    "PluginLoadError",
    "PluginProgramFailed",
    "PodError",
    "PodExists",
    "PodForbidden",
    "PodNotBindable",
    "PodNotFound",
    "PortUnreachable",
    "PostStopUnconfirmed",
    "PreStartFailed",
    "PreferredAllocationFailed",
    "PreviousDevicesUnhealthy",
    "RegistrationRefused",
    "RequestRefused",
    "RootInUse",
    "RpcCode",
    "RpcFailed",
    "SandboxFailed",
    "SocketInUse",
    "StoreUnusable",
    "TopologyMisaligned",
    "UnknownDevice",
    "UnknownEndpoint",
    "UnregisteredResource",
    "UnresolvableCdiDevices",
    "UnusableTopology",
    "UsageError",
    "VolumeUnusable",
    "quote",
]
