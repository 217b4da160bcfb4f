"""Errors for the plugin's author: the plugin said something that no kubelet can use."""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import called, quote, shown


class AuthorError(PlugbayError):
    """A plugin said something no kubelet can use."""


class InvalidResourceName(AuthorError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        name = quote(self.name) if isinstance(self.name, str) else shown(self.name)
        return (
            f"the ResourceName {name} is invalid; it has to be vendor-domain/type, "
            "such as example.com/gopher, and not of kubernetes.io"
        )


class InvalidDeviceId(AuthorError):
    def __init__(self, device_id: str, problem: str) -> None:
        super().__init__(device_id, problem)
        self.device_id = device_id
        self.problem = problem

    def __str__(self) -> str:
        return f"device ID {shown(self.device_id)} {self.problem}"


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
    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class InvalidVersion(AuthorError):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} is not a semantic version such as 535.104.5"


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


class HookFailed(AuthorError):
    """A hook raised something that its author did not mean to raise, or gave something of no use.

    Args:
        devices: IDs of the devices that it was called about.
        problem: the failure, such as ``failed: KeyError: 'x' (cards.py:12)``.
    """

    def __init__(self, resource: str, hook: str, devices: Sequence[str], problem: str) -> None:
        super().__init__(resource, hook, tuple(devices), problem)
        self.resource = resource
        self.hook = hook
        self.devices = tuple(devices)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.resource}: {called(self.hook, self.devices)} {self.problem}"


class DeviceListTooLarge(AuthorError):
    """The list is too long: a kubelet would end the stream, and so forget every device."""

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
        return f"two plugins serve {self.resource}; a kubelet takes only one"


class AllocationError(AuthorError):
    """Authors raise it in ``allocate`` when the devices cannot be given; its text reaches the pod's event."""


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


class DevicesStillUsed(AuthorError):
    """No container can start with these devices yet: other containers may still use them. The kubelet asks again."""

    def __init__(self, devices: Sequence[str], resource: str, problem: str) -> None:
        super().__init__(tuple(devices), resource, problem)
        self.devices = tuple(devices)
        self.resource = resource
        self.problem = problem

    def __str__(self) -> str:
        return f"no container can start with {', '.join(self.devices)} of {self.resource} yet: {self.problem}"


class PartialAllocationError(AllocationError):
    """Authors raise it in ``allocate`` when some of the devices cannot be given.

    The request fails, and the ``failed`` ones are unhealthy from now on, until a health check or ``discover`` that
    began later says that they are healthy.

    Args:
        failed: IDs of devices; one may stand alone.
        problem: the reason.
    """

    def __init__(self, failed: Sequence[str], problem: str = "") -> None:
        super().__init__(failed, problem)
        self.failed = (failed,) if isinstance(failed, str) else tuple(failed)
        self.problem = problem

    def __str__(self) -> str:
        sentence = f"cannot allocate {', '.join(map(quote, self.failed))}"
        return f"{sentence}: {self.problem}" if self.problem else sentence


class CannotRelease(AuthorError):
    """Authors raise it in ``release`` or ``post_stop`` when that will never work and is not to be tried again.

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


class InvalidDiscovery(AuthorError):
    """``discover`` gave something that is not a list of devices."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"discover() gave {self.problem}"


class DiscoveryEnded(AuthorError):
    """A ``discover`` that gives one list after the other has ended."""

    def __str__(self) -> str:
        return "discover() returned, but a generator of lists must keep running until it is closed"


class InvalidPlugin(AuthorError):
    """An attribute of a plugin has a value of no use, or is missing."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


class InvalidWatch(AuthorError):
    """A path that a plugin names cannot be watched."""

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
