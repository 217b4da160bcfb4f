"""The admission of a pod to the node: handlers in a kubelet's order, each of which may reject it.

Source: kubelet 1.36 ``lifecycle/handlers.go``, ``cm/admission/errors.go``; spec 4.1, 4.11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from plugbay.errors import AdmissionError, ExpiredResource, TopologyMisaligned
from plugbay.manager.admission.topology import HintProvider
from plugbay.model.pods import pod_request
from plugbay.ops.metrics import LabelCounter
from plugbay.pods.devices import DeviceSource
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.record import PodRecord, Rejection
from plugbay.values import dataclass


class AdmissionHandler(Protocol):
    """A question that a pod has to pass. The devices of a pod that a later handler rejects are taken back."""

    async def admit(self, record: PodRecord) -> Rejection | None:
        """The reason why the node cannot run the pod; None if this handler has nothing against it.

        After a restart of the node, a handler is asked again about the pods that ran before; their stage says so. A
        kubelet does the same.
        """
        ...


@dataclass(frozen=True, slots=True)
class Joining:
    """The parts that other resource managers play besides the device manager; code adds them.

    Attributes:
        handlers: asked about every pod after the node's own, one after another. They only judge: a manager that
            gives something to pods, and needs it back, is a hint provider.
        hint_providers: give out resources that have a place on the machine, along the same NUMA affinity as the
            devices and in the same transaction.
    """

    handlers: Sequence[AdmissionHandler] = ()
    hint_providers: Sequence[HintProvider] = ()


NOBODY: Final = Joining()


class AdmissionChain:
    """Handlers in their order.

    Attributes:
        rejections: the number of pods that were not admitted, by reason.
    """

    def __init__(self, handlers: Sequence[AdmissionHandler]) -> None:
        self._handlers = handlers
        self.rejections = LabelCounter[str]("OutOfExtendedResources")

    async def admit(self, record: PodRecord) -> Rejection | None:
        """Return the first rejection, which ends the chain."""
        for handler in self._handlers:
            rejection = await handler.admit(record)
            if rejection is not None:
                self.rejections.count(rejection.reason)
                return rejection
        return None


def admission_chain(
    devices: DeviceSource,
    misfit: Callable[[PodRecord], Rejection | None],
    *,
    advertised: Callable[[], Collection[str]],
    others: Sequence[AdmissionHandler],
) -> AdmissionChain:
    """The handlers of our node. A kubelet has more, for sysctls, eviction and AppArmor, which we do not handle.

    Args:
        misfit: says why the node's resources do not suffice for a pod.
        advertised: the resources that clients say the node has; those of plugins are not among them.
        others: asked when our own have nothing against it.
    """
    resources = NodeResources(misfit)
    return AdmissionChain([Devices(devices, resources, advertised), resources, *others])


class Devices:
    """The topology manager with the device manager below it: here a pod gets its devices."""

    def __init__(
        self, devices: DeviceSource, resources: NodeResources, advertised: Callable[[], Collection[str]]
    ) -> None:
        self._devices = devices
        self._resources = resources
        self._advertised = advertised

    async def admit(self, record: PodRecord) -> Rejection | None:
        """See `AdmissionHandler.admit`."""
        try:
            request = pod_request(record.pod, without=self._advertised())
            await self._devices.admit(request, running=record.running().keys())
        except TopologyMisaligned as error:
            return Rejection("TopologyAffinityError", str(error))
        except ExpiredResource as error:
            # A kubelet's device manager has forgotten the resource; what the node object still says decides.
            return await self._resources.admit(record) or _unexpected(error)
        except AdmissionError as error:
            return _unexpected(error)
        return None


class NodeResources:
    """The node's predicates, for pods that have not run here; a pod that was admitted once keeps its place."""

    def __init__(self, misfit: Callable[[PodRecord], Rejection | None]) -> None:
        self._misfit = misfit

    async def admit(self, record: PodRecord) -> Rejection | None:
        """See `AdmissionHandler.admit`."""
        return self._misfit(record) if record.stage is PodStage.BOUND else None


def _unexpected(error: AdmissionError) -> Rejection:
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")
