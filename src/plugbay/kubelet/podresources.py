"""A client that asks a kubelet, or our manager, which pod holds which devices."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from plugbay.errors import RpcFailed
from plugbay.model.podresources import AllocatableResources, PodResources
from plugbay.wire.podresources import PodResourcesCalls

CALL_TIMEOUT_S: Final = 10.0
"""A kubelet answers in milliseconds, but calls wait while its Device Manager does some of its work."""


class PodResourcesClient:
    """A PodResources socket; use it as an async context manager. It connects when first used.

    Every method raises `RpcFailed`: with code ``Unavailable`` when there is no answer, and with ``ResourceExhausted``
    when all clients together ask more than a hundred times a second, or more than ten times at once: ask again later.

    Listing makes a stock kubelet drop the assignments of pods that have ended. If it is waiting for an Allocate call
    meanwhile, it can so give a device in use to a second pod (spec 4.9.2). `get` and `allocatable` are harmless.
    """

    def __init__(self, socket: Path) -> None:
        self._calls = PodResourcesCalls(socket, timeout_s=CALL_TIMEOUT_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.close()

    async def list(self) -> tuple[PodResources, ...]:
        """The active pods, those without devices included; a kubelet's order is random."""
        return await self._calls.list_v1()

    async def get(self, namespace: str, name: str) -> PodResources | None:
        """One active pod, or None if there is no pod of that name. Kubelets older than 1.36 may refuse."""
        try:
            return await self._calls.get_v1(namespace, name)
        except RpcFailed as error:
            if error.detail == f"pod {name} in namespace {namespace} not found":  # the code is Unknown
                return None
            raise

    async def allocatable(self) -> AllocatableResources:
        """Healthy devices, in use or not."""
        return await self._calls.allocatable_v1()

    async def list_v1alpha1(self) -> tuple[PodResources, ...]:
        """All pods with their app containers, without topology; for kubelets too old for v1."""
        return await self._calls.list_v1alpha1()
