"""Every exception plugbay raises on purpose, split by who must act.

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
    │   ├── InvalidPreference
    │   ├── DeviceListTooLarge
    │   ├── DuplicateResource
    │   ├── AllocationError
    │   │   ├── HardwareInUse
    │   │   ├── DevicesNotReleased
    │   │   └── PartialAllocationError
    │   ├── CannotRelease
    │   ├── DiscoveryFailed
    │   ├── DiscoveryEnded
    │   ├── InvalidPlugin
    │   ├── InvalidWatch
    │   ├── InvalidHealthCheck
    │   ├── CannotIsolate
    │   ├── NotInCdi
    │   └── PluginLoadError
    ├── OperatorError               who runs the program: files, paths, rights, flags
    │   ├── UsageError
    │   ├── PathTooLong
    │   ├── PathUnusable
    │   ├── RootInUse
    │   ├── LockHeld
    │   ├── SocketInUse
    │   ├── KubeletIsLive
    │   ├── StoreUnusable
    │   ├── CorruptCheckpoint
    │   ├── CheckpointNotOurs
    │   ├── InvalidDocument
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
    │   └── NodeUnreachable
    ├── PodError                    the pod's author
    │   ├── InvalidManifest
    │   ├── InvalidQuantity
    │   ├── PodNotFound
    │   ├── PodExists
    │   ├── ImmutablePod
    │   ├── ContainerNotFound
    │   ├── VolumeUnusable
    │   ├── ContainerStartError
    │   ├── SandboxFailed
    │   ├── InstanceNotFound
    │   ├── ExecFailed
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
        └── NetworkPluginFailed
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_CONTROL: Final = re.compile(r"\\u00([0-9a-f]{2})")
_SHOWN_PROBLEMS: Final = 10
_SHOWN_CHARACTERS: Final = 100


class PlugbayError(Exception):
    """Root of the tree. ``str()`` is one sentence that says what is wrong and where."""


# --- the plugin's author -------------------------------------------------------------------------------------------


class AuthorError(PlugbayError):
    """A plugin said something no kubelet can use."""


class InvalidResourceName(AuthorError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"the ResourceName {quote(self.name)} is invalid; it has to be vendor-domain/type, "
            "such as example.com/gopher, and not of kubernetes.io"
        )


class InvalidDeviceId(AuthorError):
    def __init__(self, device_id: str, problem: str) -> None:
        super().__init__(device_id, problem)
        self.device_id = device_id
        self.problem = problem

    def __str__(self) -> str:
        return f"device ID {_shown(self.device_id)} {self.problem}"


class InvalidDevice(AuthorError):
    def __init__(self, device_id: str, problem: str) -> None:
        super().__init__(device_id, problem)
        self.device_id = device_id
        self.problem = problem

    def __str__(self) -> str:
        return f"device {self.device_id}: {self.problem}"


class DuplicateDevice(AuthorError):
    def __init__(self, device_id: str) -> None:
        super().__init__(device_id)
        self.device_id = device_id

    def __str__(self) -> str:
        return f"device ID {self.device_id!r} occurs twice in one list"


class DuplicateDeviceName(AuthorError):
    def __init__(self, name: str, one: str, other: str) -> None:
        super().__init__(name, one, other)
        self.name = name
        self.one = one
        self.other = other

    def __str__(self) -> str:
        return f"the devices {self.one!r} and {self.other!r} have the same name {self.name!r}"


class InvalidHealth(AuthorError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason!r} is no reason for a health such as Overheated: one word; the message may be a sentence"


class InvalidVersion(AuthorError):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} is no semantic version such as 535.104.5"


class ConflictingEdits(AuthorError):
    """Two devices of one request want different things in the same place."""

    def __init__(self, what: str, key: str, first: str, second: str) -> None:
        super().__init__(what, key, first, second)
        self.what = what
        self.key = key
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return f"two devices disagree about {self.what} {self.key!r}: {self.first} and {self.second}"


class UnknownDevice(AuthorError):
    """A kubelet asks for a device that cannot be given (any more)."""

    def __init__(self, resource: str, device_id: str, problem: str) -> None:
        super().__init__(resource, device_id, problem)
        self.resource = resource
        self.device_id = device_id
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.resource}: device {quote(self.device_id)} {self.problem}"


class InvalidPreference(AuthorError):
    def __init__(self, resource: str, problem: str) -> None:
        super().__init__(resource, problem)
        self.resource = resource
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.resource}: preferred_allocation() gave {self.problem}"


class DeviceListTooLarge(AuthorError):
    """A kubelet would end the stream, and so forget every device."""

    def __init__(self, resource: str, size: int, limit: int) -> None:
        super().__init__(resource, size, limit)
        self.resource = resource
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.resource}: the device list has {self.size} bytes on the wire; kubelets take {self.limit}"


class DuplicateResource(AuthorError):
    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource

    def __str__(self) -> str:
        return f"two plugins serve {self.resource}; a kubelet knows one"


class AllocationError(AuthorError):
    """For authors to raise in ``allocate``: the devices cannot be given; the text reaches the pod's event."""


class HardwareInUse(AllocationError):
    """A device cannot be given while its hardware is in use as another resource."""

    def __init__(self, device: str, hardware: str, resource: str) -> None:
        super().__init__(device, hardware, resource)
        self.device = device
        self.hardware = hardware
        self.resource = resource

    def __str__(self) -> str:
        return f"cannot allocate {quote(self.device)}: {self.hardware} is in use as {self.resource}"


class DevicesNotReleased(AllocationError):
    """Devices cannot be given before they are released, and cannot be released now."""

    def __init__(self, devices: Sequence[str], resource: str, problem: str) -> None:
        super().__init__(tuple(devices), resource, problem)
        self.devices = tuple(devices)
        self.resource = resource
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot allocate {', '.join(self.devices)} of {self.resource} before they are released: {self.problem}"


class PartialAllocationError(AllocationError):
    """For authors to raise in ``allocate``: some of the devices cannot be given.

    The request fails, and the ``failed`` ones are unhealthy from now on, until a health check or ``discover`` that
    began later says that they are healthy.

    Args:
        failed: IDs of devices.
        problem: why.
    """

    def __init__(self, failed: Sequence[str], problem: str = "") -> None:
        super().__init__(failed, problem)
        self.failed = tuple(failed)
        self.problem = problem

    def __str__(self) -> str:
        sentence = f"cannot allocate {', '.join(map(quote, self.failed))}"
        return f"{sentence}: {self.problem}" if self.problem else sentence


class CannotRelease(AuthorError):
    """For authors to raise in ``release`` or ``post_stop``: it will never work, and is not to be tried again.

    The text reaches the pod's event; the devices are given out again.
    """


class DiscoveryFailed(AuthorError):
    """A plugin cannot tell what devices there are."""

    def __init__(self, resource: str, hook: str, problem: str) -> None:
        super().__init__(resource, hook, problem)
        self.resource = resource
        self.hook = hook
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.resource}: {self.hook} failed: {self.problem}"


class DiscoveryEnded(AuthorError):
    """A ``discover`` that gives one list after the other gives no more."""

    def __str__(self) -> str:
        return "discover() ended; one that gives lists has to go on until it is closed"


class InvalidPlugin(AuthorError):
    """Something that a plugin's author wrote into its attributes is of no use, or something is missing."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


class InvalidWatch(AuthorError):
    """What a plugin watches cannot be watched."""

    def __init__(self, resource: str, problem: str) -> None:
        super().__init__(resource, problem)
        self.resource = resource
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.resource}: watch_uevents: {self.problem}"


class InvalidHealthCheck(AuthorError):
    """A method or function marked with ``@health`` cannot be used as a check."""

    def __init__(self, check: str, problem: str) -> None:
        super().__init__(check, problem)
        self.check = check
        self.problem = problem

    def __str__(self) -> str:
        return f"health check {self.check}: {self.problem}"


class CannotIsolate(AuthorError):
    """A function cannot be sent to a process of its own."""

    def __init__(self, function: str, problem: str) -> None:
        super().__init__(function, problem)
        self.function = function
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.function} cannot run in a process of its own: {self.problem}"


class NotInCdi(AuthorError):
    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"a CDI spec cannot hold {self.what}"


class PluginLoadError(AuthorError):
    """A serve target holds no usable plugin."""

    def __init__(self, target: str, problem: str) -> None:
        super().__init__(target, problem)
        self.target = target
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot load a plugin from {self.target}: {self.problem}"


# --- who runs the program ------------------------------------------------------------------------------------------


class OperatorError(PlugbayError):
    """Something outside the program must be put right: a file, a path, a right, a flag."""


class UsageError(OperatorError):
    """The command line asks for something that makes no sense; the text says which part."""


class PathTooLong(OperatorError):
    def __init__(self, path: str, limit: int = 107) -> None:
        super().__init__(path, limit)
        self.path = path
        self.limit = limit

    def __str__(self) -> str:
        size = len(self.path.encode(errors="surrogateescape"))
        return f"socket path {self.path} has {size} bytes; unix sockets end at {self.limit}. Choose a shorter root"


class PathUnusable(OperatorError):
    """A file or directory is missing, of the wrong kind, or closed to us."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class RootInUse(OperatorError):
    def __init__(self, root: str, pid: int | None) -> None:
        super().__init__(root, pid)
        self.root = root
        self.pid = pid

    def __str__(self) -> str:
        by = f" (pid {self.pid})" if self.pid else ""
        return f"another plugbay node{by} is running on {self.root}"


class LockHeld(OperatorError):
    """Attributes: ``pid`` is the holder's as it wrote it, None when it is not known."""

    def __init__(self, path: str, pid: int | None) -> None:
        super().__init__(path, pid)
        self.path = path
        self.pid = pid

    def __str__(self) -> str:
        return f"{self.path} is locked by {f'process {self.pid}' if self.pid else 'another process'}"


class SocketInUse(OperatorError):
    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address

    def __str__(self) -> str:
        return f"another program is listening at {self.address}"


class KubeletIsLive(OperatorError):
    def __init__(self, socket_path: str) -> None:
        super().__init__(socket_path)
        self.socket_path = socket_path

    def __str__(self) -> str:
        return f"something answers at {self.socket_path}, probably a kubelet; plugbay never takes over a live node"


class StoreUnusable(OperatorError):
    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"store {self.path}: {self.problem}"


class CorruptCheckpoint(OperatorError):
    """A device manager checkpoint that a kubelet would not load."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"checkpoint {self.source} is corrupted: {self.problem}"


class CheckpointNotOurs(OperatorError):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"checkpoint {self.path} was written by another program, probably a kubelet, since plugbay wrote it last; "
            "take it over with --on-foreign-checkpoint import, or move it away"
        )


class InvalidDocument(OperatorError):
    """A YAML or JSON text is broken.

    Attributes:
        field: path such as ``devices[0].name``; empty for the text as a whole.
        line: 1-based line in ``source``.
    """

    def __init__(self, problem: str, field: str = "", line: int | None = None, source: str = "") -> None:
        super().__init__(problem, field, line, source)
        self.problem = problem
        self.field = field
        self.line = line
        self.source = source

    def __str__(self) -> str:
        return _located(self.problem, field=self.field, line=self.line, source=self.source or "document")


class InvalidCdiName(OperatorError):
    def __init__(self, what: str, text: str, problem: str) -> None:
        super().__init__(what, text, problem)
        self.what = what
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"invalid CDI {self.what} {quote(self.text)}: {self.problem}"


class InvalidCdiSpec(OperatorError):
    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.source}: {self.problem}"


class UnresolvableCdiDevices(OperatorError):
    """No usable spec file defines them; then nothing is injected."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = tuple(names)

    def __str__(self) -> str:
        return f"unresolvable CDI devices {', '.join(self.names)}"


class CdiInjectionFailed(OperatorError):
    """The host has not what a spec says."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class EngineUnusable(OperatorError):
    """No OCI engine runs containers on this machine.

    Attributes:
        refusals: each one that was tried, and why it is of no use.
    """

    def __init__(self, refusals: Mapping[str, str]) -> None:
        super().__init__(refusals)
        self.refusals = dict(refusals)

    def __str__(self) -> str:
        tried = "; ".join(f"{name}: {problem}" for name, problem in self.refusals.items())
        return f"no OCI engine runs containers here: {tried}"


class ContainerEngineUnusable(OperatorError):
    """Nobody who speaks CRI is at a socket."""

    def __init__(self, socket: str, problem: str) -> None:
        super().__init__(socket, problem)
        self.socket = socket
        self.problem = problem

    def __str__(self) -> str:
        return f"there is no usable container engine at {self.socket}: {self.problem}"


class UnusableTopology(OperatorError):
    """The topology manager cannot work as it was told to on this machine; the texts are the kubelet's.

    Source: kubelet 1.36 ``cm/topologymanager/topology_manager.go``, ``policy_options.go``.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class NodeUnreachable(OperatorError):
    def __init__(self, socket_path: str, problem: str) -> None:
        super().__init__(socket_path, problem)
        self.socket_path = socket_path
        self.problem = problem

    def __str__(self) -> str:
        return f"no plugbay node answers at {self.socket_path} ({self.problem}); start one with: plugbay node up"


class InvalidNetworkConfig(OperatorError):
    """A CNI configuration cannot be used.

    Attributes:
        source: the file, or what else it was read from.
        line: 1-based, None when the problem has no place; ``column`` likewise.
    """

    def __init__(self, source: str, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(source, problem, line, column)
        self.source = source
        self.problem = problem
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{self.source}{place}: {self.problem}"


class NetworkNotFound(OperatorError):
    """No CNI configuration; ``name`` is empty when any network would have done."""

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(name, directory)
        self.name = name
        self.directory = directory

    def __str__(self) -> str:
        if self.name:
            return f"no CNI network named {quote(self.name)} in {self.directory}"
        return f"no CNI network in {self.directory}; put a .conflist file there"


class NetworkPluginMissing(OperatorError):
    """A CNI plugin's binary is in none of the directories."""

    def __init__(self, plugin: str, directories: Sequence[str]) -> None:
        super().__init__(plugin, directories)
        self.plugin = plugin
        self.directories = tuple(directories)

    def __str__(self) -> str:
        return f"failed to find plugin {quote(self.plugin)} in path [{' '.join(self.directories)}]"


class NamespaceUnusable(OperatorError):
    """A namespace cannot be made, entered or removed."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"namespace {self.path}: {self.problem}"


class NetworkBusy(OperatorError):
    """Another process is at work on the same container's networks, or collects a network's garbage."""

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self.container = container

    def __str__(self) -> str:
        return f"another process is at work on the networks of container {quote(self.container)}"


# --- the pod's author ----------------------------------------------------------------------------------------------


class PodError(PlugbayError):
    """A pod asks for something wrong, or does not exist."""


class InvalidManifest(PodError):
    """A manifest cannot be used.

    Attributes:
        field: path such as ``spec.containers[0].image``; empty for the document as a whole.
        line: 1-based line in ``source``, or None when it has no text.
        more: the other problems of the same manifest, in document order; ``str()`` has a line for each, up to ten.
    """

    def __init__(
        self,
        problem: str,
        *,
        field: str = "",
        line: int | None = None,
        source: str = "",
        more: Sequence[InvalidManifest] = (),
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field
        self.line = line
        self.source = source
        self.more = tuple(more)

    def __reduce__(self) -> tuple[object, ...]:
        return (_make_invalid_manifest, (self.problem, self.field, self.line, self.source, self.more))

    def __str__(self) -> str:
        lines = [problem.sentence for problem in (self, *self.more)]
        shown = lines[:_SHOWN_PROBLEMS]
        if len(lines) > len(shown):
            shown.append(f"and {len(lines) - len(shown)} more")
        return "\n".join(shown)

    @property
    def sentence(self) -> str:
        """This problem alone, without ``more``."""
        return _located(self.problem, field=self.field, line=self.line, source=self.source or "manifest")


def _make_invalid_manifest(
    problem: str, field: str, line: int | None, source: str, more: Sequence[InvalidManifest]
) -> InvalidManifest:
    return InvalidManifest(problem, field=field, line=line, source=source, more=more)


class InvalidQuantity(PodError):
    def __init__(self, text: str, problem: str) -> None:
        super().__init__(text, problem)
        self.text = text
        self.problem = problem

    def __str__(self) -> str:
        return f"quantity {self.text!r} {self.problem}"


class PodNotFound(PodError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"pods {quote(self.name)} not found"


class PodExists(PodError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"pods {quote(self.name)} already exists"


class ImmutablePod(PodError):
    """A pod that is there should become another one; ``fields`` are those that differ."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        super().__init__(name, fields)
        self.name = name
        self.fields = tuple(fields)

    def __str__(self) -> str:
        shown = ", ".join(self.fields[:_SHOWN_PROBLEMS])
        if len(self.fields) > _SHOWN_PROBLEMS:
            shown += f" and {len(self.fields) - _SHOWN_PROBLEMS} more"
        return (
            f"Pod {quote(self.name)} is invalid: {shown}: Forbidden: pod updates may not change fields other than "
            "metadata.labels and metadata.annotations; delete the pod first"
        )


class ContainerNotFound(PodError):
    def __init__(self, container: str, pod: str, valid: Sequence[str]) -> None:
        super().__init__(container, pod, valid)
        self.container = container
        self.pod = pod
        self.valid = valid

    def __str__(self) -> str:
        return f"container {self.container} is not valid for pod {self.pod}; it has: {', '.join(self.valid)}"


class VolumeUnusable(PodError):
    """A volume is not what the pod says it is, or cannot be made."""

    def __init__(self, volume: str, problem: str) -> None:
        super().__init__(volume, problem)
        self.volume = volume
        self.problem = problem

    def __str__(self) -> str:
        return f"MountVolume.SetUp failed for volume {quote(self.volume)} : {self.problem}"


class ContainerStartError(PodError):
    """A runtime cannot start a container.

    Attributes:
        reason: what a kubelet shows: ``StartError`` or ``RunContainerError`` (the container has terminated, with code
            128), or anything else, such as ``CreateContainerError`` (the pod waits, and it is tried again).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class SandboxFailed(PodError):
    """A runtime cannot make or remove what the containers of a pod share; it is tried again."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class InstanceNotFound(PodError):
    """A runtime has no container instance with this ID."""

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self.container = container

    def __str__(self) -> str:
        return f"container {quote(self.container)}: not found"


class ExecFailed(PodError):
    """A command cannot be run in a container; that it ran and failed is no error."""

    def __init__(self, container: str, problem: str) -> None:
        super().__init__(container, problem)
        self.container = container
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot exec in container {self.container}: {self.problem}"


class InvalidBandwidth(PodError):
    """A pod's bandwidth annotation is no amount an engine would shape to."""

    def __init__(self, annotation: str, value: str, problem: str) -> None:
        super().__init__(annotation, value, problem)
        self.annotation = annotation
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {quote(self.value)} {self.problem}"


class InvalidAttachment(PodError):
    """What should be attached to a network has a name or an argument that no plugin may get."""

    def __init__(self, what: str, value: str, problem: str) -> None:
        super().__init__(what, value, problem)
        self.what = what
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} {quote(self.value)} {self.problem}"


# --- admission: the texts are the kubelet's ------------------------------------------------------------------------


class AdmissionError(PlugbayError):
    """A pod cannot have its devices. ``str()`` is the kubelet's text.

    Source: kubelet 1.36 ``cm/devicemanager/manager.go``, ``endpoint.go``.
    """


class ChangedRequest(AdmissionError):
    def __init__(self, pod_uid: str, container: str, resource: str, before: int, after: int) -> None:
        super().__init__(pod_uid, container, resource, before, after)
        self.pod_uid = pod_uid
        self.container = container
        self.resource = resource
        self.before = before
        self.after = after

    def __str__(self) -> str:
        return (
            f"pod {quote(self.pod_uid)} container {quote(self.container)} changed request for resource "
            f"{quote(self.resource)} from {self.before} to {self.after}"
        )


class _OfResource(AdmissionError):
    text = "{}"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource

    def __str__(self) -> str:
        return self.text.format(self.resource)


class UnregisteredResource(_OfResource):
    text = "cannot allocate unregistered device {}"


class ExpiredResource(UnregisteredResource):
    """Its plugin was there once and did not come back in time, and nobody holds any of it.

    A kubelet's device manager passes over such a resource; the node's predicates refuse the pod then.
    """


class NoHealthyDevices(_OfResource):
    text = "no healthy devices present; cannot allocate unhealthy devices {}"


class PreviousDevicesUnhealthy(_OfResource):
    text = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices {}"


class UnknownEndpoint(_OfResource):
    text = "unknown Device Plugin {}"


class InsufficientDevices(AdmissionError):
    """Attributes: ``requested`` is what is still missing after reuse, ``available`` what is free."""

    def __init__(self, resource: str, requested: int, available: int) -> None:
        super().__init__(resource, requested, available)
        self.resource = resource
        self.requested = requested
        self.available = available

    def __str__(self) -> str:
        return (
            f"requested number of devices unavailable for {self.resource}. "
            f"Requested: {self.requested}, Available: {self.available}"
        )


class EndpointNotFound(_OfResource):
    text = "endpoint not found in cache for a registered resource: {}"


class CheckpointNotWritten(AdmissionError):
    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return f'failed to write checkpoint file "kubelet_internal_checkpoint": {self.cause}'


class NoContainerResponse(_OfResource):
    text = "no containers return in allocation response "


class PreferredAllocationFailed(AdmissionError):
    def __init__(self, resource: str, cause: str) -> None:
        super().__init__(resource, cause)
        self.resource = resource
        self.cause = cause

    def __str__(self) -> str:
        return f"device plugin GetPreferredAllocation rpc failed with err: {self.cause}"


class AllocateFailed(AdmissionError):
    """The plugin refused or broke off Allocate; ``cause`` is the gRPC error as Go prints it."""

    def __init__(self, resource: str, cause: str) -> None:
        super().__init__(resource, cause)
        self.resource = resource
        self.cause = cause

    def __str__(self) -> str:
        return self.cause


class AllocateUnsettled(AllocateFailed):
    """Allocate broke off, and nobody knows whether the plugin has carried it out."""


class PostStopUnconfirmed(AdmissionError):
    """A container cannot start again yet: the plugin has not cleaned up after its last instance."""

    def __init__(self, resource: str, container: str) -> None:
        super().__init__(resource, container)
        self.resource = resource
        self.container = container

    def __str__(self) -> str:
        return f"device plugin PostStopContainer of {self.resource} for container {self.container} is not confirmed"


class PreStartFailed(AdmissionError):
    def __init__(self, resource: str, cause: str) -> None:
        super().__init__(resource, cause)
        self.resource = resource
        self.cause = cause

    def __str__(self) -> str:
        return f"device plugin PreStartContainer rpc failed with err: {self.cause}"


class NoDevicesAllocated(AdmissionError):
    def __init__(self, pod_uid: str, container: str, resource: str) -> None:
        super().__init__(pod_uid, container, resource)
        self.pod_uid = pod_uid
        self.container = container
        self.resource = resource

    def __str__(self) -> str:
        return (
            f"no devices found allocated in local cache for pod {self.pod_uid}, "
            f"container {self.container}, resource {self.resource}"
        )


class EndpointStopped(AdmissionError):
    """The plugin is gone. The kubelet prints an internal structure in the middle; begin and end are the same."""

    def __init__(self, resource: str, stop_time: str) -> None:
        super().__init__(resource, stop_time)
        self.resource = resource
        self.stop_time = stop_time

    def __str__(self) -> str:
        return f"endpoint &{{{self.resource} {self.stop_time}}} has been stopped"


class TopologyMisaligned(AdmissionError):
    """The topology manager's policy forbids what would be left for the pod.

    Source: kubelet 1.36 ``cm/topologymanager/topology_manager.go``.
    """

    def __str__(self) -> str:
        return "Resources cannot be allocated with Topology locality"


# --- the other end of a socket -------------------------------------------------------------------------------------


class PeerError(PlugbayError):
    """The program at the other end of a socket failed or refused."""


class RpcFailed(PeerError):
    """A gRPC call failed; ``str()`` is what Go's gRPC prints.

    Attributes:
        code: CamelCase name of the status code, such as ``Unavailable``.
        detail: the status message.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        return f"rpc error: code = {self.code} desc = {self.detail}"


class CheckpointUnread(PeerError):
    """No checkpoint of the kubelet says what it holds now.

    Attributes:
        problem: a clause that says why.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"the kubelet's checkpoint does not tell who holds devices: {self.problem}"


class RegistrationRefused(PeerError):
    """A Register call cannot be granted; ``str()`` is the message sent back."""


class RequestRefused(PeerError):
    """A node answered a request with a v1 Status; ``str()`` is the node's own sentence.

    Attributes:
        code: the HTTP status, 400 to 599.
        reason: ``metav1.StatusReason``, such as ``NotFound``.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class InvalidNetworkResult(PeerError):
    """What a CNI plugin printed is no result; the text says why, as a part of a sentence."""


class NetworkPluginFailed(PeerError):
    """A CNI plugin answered with an error, or did not answer as one.

    Attributes:
        plugin: its type. ``command`` is the CNI command, such as ``ADD``.
        code: of the specification (below 100) or of the plugin; 0 where only the text tells.
    """

    def __init__(self, plugin: str, command: str, code: int, message: str, details: str) -> None:
        super().__init__(plugin, command, code, message, details)
        self.plugin = plugin
        self.command = command
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        verb = {"DEL": "delete"}.get(self.command, self.command.lower())
        cause = f"{self.message}; {self.details}" if self.details else self.message
        return f"plugin type={quote(self.plugin)} failed ({verb}): {cause}"


def quote(text: str) -> str:
    """``text`` in double quotes, escaped as Go's ``%q`` does for what occurs in names."""
    # Imported here: every worker process has this module, and hardly one has anything to quote.
    import json

    quoted = json.dumps(text, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\x{int(match.group(1), 16):02x}", quoted)


def _located(problem: str, *, field: str, line: int | None, source: str) -> str:
    where = source if line is None else f"{source}:{line}"
    return f"{where}: {field}: {problem}" if field else f"{where}: {problem}"


def _shown(value: object) -> str:
    """``value`` as it is written in Python, or its beginning: authors may hand us whole files."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
