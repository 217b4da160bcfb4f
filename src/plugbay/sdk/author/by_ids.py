"""Plugins whose answers depend on the IDs of a call as they were sent. Private: authors write `DevicePlugin`."""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.sdk.author.plugin import DevicePlugin


class AnswersByIds(DevicePlugin):
    """A plugin that is asked with the IDs of a kubelet's call: in their order, each replica by itself, unknown too.

    It takes the place of another plugin whose answers are known to the letter. Its methods run in the event loop.
    """

    async def allocate_ids(self, ids: Sequence[DeviceId]) -> ContainerEdits:
        """Say what a container gets with these; instead of `allocate`.

        Raises:
            AllocationError: the request is refused.
        """
        raise NotImplementedError

    async def preferred_ids(
        self, available: Sequence[DeviceId], must_include: Sequence[DeviceId], size: int
    ) -> Sequence[DeviceId]:
        """The IDs to prefer; instead of `preferred_allocation`, and sent as they are.

        Raises:
            AllocationError: the request cannot be met.
        """
        raise NotImplementedError

    def preferred_allocation(
        self, available: Sequence[Device], must_include: Sequence[Device], size: int
    ) -> Sequence[Device]:
        """Never called; that it is there makes kubelets ask for preferences."""
        raise NotImplementedError
