"""Follow a node: a new view whenever something on it may have changed, as the kernel tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from plugbay.kernel.watch import watch_paths
from plugbay.observe.places import NodePlaces
from plugbay.observe.view import ObservedNode

SETTLE_S: Final = 0.2
"""The least time between two readings: what is changing now need not be read a thousand times."""
RETRY_S: Final = 0.5
"""A kubelet that comes back is noticed by its socket; one that hangs tells nothing when it goes on."""


async def followed(
    read: Callable[[], Awaitable[ObservedNode]], places: NodePlaces, *, refresh_s: float | None = None
) -> AsyncIterator[ObservedNode]:
    """Views without end: one at once, then one after each change.

    A kubelet writes its checkpoint when it gives devices and when their health changes, and makes and removes
    directories of pods, so that all of this is noticed at once and without asking. While a view is partial, the node is
    read again every `RETRY_S`.

    Args:
        refresh_s: also read after so long without a change, for sources that tell of none, as pages do.
    """
    directories = (places.kubelet.device_plugins, places.pods, places.pod_logs)
    async with watch_paths((*directories, places.kubelet.pod_resources_socket), settle_s=SETTLE_S) as changes:
        while True:
            view = await read()
            yield view
            try:
                async with asyncio.timeout(RETRY_S if view.is_partial else refresh_s):
                    await anext(changes)
            except TimeoutError:
                continue
