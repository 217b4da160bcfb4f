"""Errors of a pod that cannot have its devices. No program is at fault, and the texts are the kubelet's."""

from __future__ import annotations

from plugbay.errors.root import PlugbayError
from plugbay.errors.wording import quote


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
    """The resource's plugin did not come back in time, and no pod holds a device of it.

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
    """Allocate broke off, and it is not known whether the plugin has carried it out."""


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
