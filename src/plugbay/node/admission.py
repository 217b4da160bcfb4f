"""The admission of a pod to the node: handlers in a kubelet's order, each of which may reject it.

Source: kubelet 1.36 ``lifecycle/handlers.go``, ``cm/admission/errors.go``; spec 4.1, 4.11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from plugbay.errors import AdmissionError, ExpiredResource, TopologyMisaligned
from plugbay.manager.topology import HintProvider
from plugbay.model.pods import pod_request
from plugbay.node.lifecycle import Stage
from plugbay.node.parts import DeviceSource
from plugbay.node.records import PodRecord, Rejection


class Handler(Protocol):
    """One question that a pod has to pass. The devices of a pod that a later one rejects are taken back."""

    async def admit(self, record: PodRecord) -> Rejection | None:
        """Why the node cannot run the pod; None if this handler has nothing against it.

        As by a kubelet it is also asked about the pods of before, whose stage says so, when the node has restarted.
        """
        ...


@dataclass(frozen=True, slots=True)
class Joining:
    """What resource managers beside that of devices bring to a node; they are added by code.

    Attributes:
        handlers: asked about every pod after the node's own, one after another. They only judge: who gives pods
            something, and has to have it back, is a hint provider.
        hint_providers: give out what has its place on the machine, along the same NUMA affinity as the devices and
            in the same transaction.
    """

    handlers: Sequence[Handler] = ()
    hint_providers: Sequence[HintProvider] = ()


NOBODY: Final = Joining()


class AdmissionChain:
    """Handlers in their order."""

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self._handlers = handlers

    async def admit(self, record: PodRecord) -> Rejection | None:
        """The first rejection, which ends the chain."""
        for handler in self._handlers:
            rejection = await handler.admit(record)
            if rejection is not None:
                return rejection
        return None


def admission_chain(
    devices: DeviceSource, misfit: Callable[[PodRecord], Rejection | None], *, others: Sequence[Handler]
) -> AdmissionChain:
    """The handlers of our node. A kubelet has more, about what we do not do: sysctls, eviction, AppArmor.

    Args:
        misfit: why the node's resources do not suffice for a pod.
        others: asked when our own have nothing against it.
    """
    resources = NodeResources(misfit)
    return AdmissionChain([Devices(devices, resources), resources, *others])


class Devices:
    """The topology manager with the device manager below it: here a pod gets its devices."""

    def __init__(self, devices: DeviceSource, resources: NodeResources) -> None:
        self._devices = devices
        self._resources = resources

    async def admit(self, record: PodRecord) -> Rejection | None:
        """For `Handler`."""
        try:
            await self._devices.admit(pod_request(record.pod), running=record.running().keys())
        except TopologyMisaligned as error:
            return Rejection("TopologyAffinityError", str(error))
        except ExpiredResource as error:
            # A kubelet's device manager has forgotten the resource; what the node object still says decides.
            return await self._resources.admit(record) or _unexpected(error)
        except AdmissionError as error:
            return _unexpected(error)
        return None


class NodeResources:
    """The node's predicates, for pods that have not run here: whoever was let in once is not sent away by numbers."""

    def __init__(self, misfit: Callable[[PodRecord], Rejection | None]) -> None:
        self._misfit = misfit

    async def admit(self, record: PodRecord) -> Rejection | None:
        """For `Handler`."""
        return self._misfit(record) if record.stage is Stage.BOUND else None


def _unexpected(error: AdmissionError) -> Rejection:
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
