"""One resource of NVIDIA devices, served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from plugbay.errors import AllocationError
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.ops.changes import Changes
from plugbay.plugins.nvidia.answers.answering import answer
from plugbay.plugins.nvidia.answers.requests import requested_devices
from plugbay.plugins.nvidia.serving.offers import ResourceOffer, covering
from plugbay.sdk.author.by_ids import AnswersByIds
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.process.recent_allocations import RecentAllocations

logger = logging.getLogger(__name__)

_MANY: Final = 8
"""More GPUs than these may take some milliseconds to choose from, in which other calls are answered."""
_NO_PREFERENCE: Final = "error getting list of preferred allocation devices"


class NvidiaPlugin(AnswersByIds):
    """The devices of one resource; `offer` changes them while they are served.

    Args:
        allocations: takes note of what containers are given.
        control_nodes: finds the driver's control nodes; it blocks.
    """

    def __init__(
        self, offer: ResourceOffer, allocations: RecentAllocations, control_nodes: Callable[[], tuple[str, ...]]
    ) -> None:
        self.resource_name = offer.resource.name
        self._offer = offer
        self._allocations = allocations
        self._control_nodes = control_nodes
        self._changes = Changes()

    @property
    def offered(self) -> ResourceOffer:
        return self._offer

    def offer(self, offer: ResourceOffer) -> None:
        """Offer this from now on; from the event loop's thread."""
        if offer == self._offer:
            return
        self._offer = offer
        self._changes.notify()

    async def discover(self) -> AsyncIterator[list[Device]]:
        async for _ in self._changes:
            yield list(self._offer.devices())

    async def allocate_ids(self, ids: Sequence[DeviceId]) -> ContainerEdits:
        offer = self._offer
        devices = requested_devices(offer.resource, ids, offer.configuration.sharing)
        self._allocations.note(offer.resource.name, ids, asyncio.get_running_loop().time())
        features = offer.features
        if offer.configuration.passes_device_nodes:
            features = replace(features, control_nodes=await in_thread(self._control_nodes))
        return answer(offer.resource.name, devices, offer.configuration, features, unique=_random_name())

    async def preferred_ids(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        offer = self._offer

        def choose() -> list[str]:
            # Imported here: a kubelet asks for it when the plugin has long been registered.
            from plugbay.plugins.nvidia.choosing import preferred, shared_choice

            return preferred(
                offer.resource.listed_ids(),
                available,
                must_include,
                size,
                links=covering(offer.links, list(offer.resource.devices)) if offer.is_aligned else None,
                shared=shared_choice(offer.configuration.allocation_policy.value),
            )

        try:
            chosen = await in_thread(choose) if len(available) > _MANY else choose()
        except AllocationError as error:
            raise AllocationError(f"{_NO_PREFERENCE}: {error}") from error
        if not chosen and size != 0:
            logger.warning(
                "%s: no devices are preferred, as the request cannot be met: it wants %d of the %d available, and "
                "requires %d; the kubelet chooses by itself",
                *(offer.resource.name, size, len(available), len(must_include)),
            )
        return [DeviceId(each) for each in chosen]


def _random_name() -> str:
    # Imported here: nothing of the start needs it.
    from uuid import uuid4

    return str(uuid4())
