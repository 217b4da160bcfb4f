"""Follow a node: a new view whenever something on it may have changed, as the kernel tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from plugbay.kernel.watch import watch_paths
from plugbay.observe.places import NodePlaces
from plugbay.observe.view import ObservedNode
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import first

SETTLE_S: Final = 0.2
"""The least time between two readings: what is changing now need not be read a thousand times."""
FIRST_RETRY_S: Final = 0.25
LAST_RETRY_S: Final = 30.0
"""A kubelet that comes back makes a socket, which is noticed, and listens there a moment later; one that hangs tells
nothing when it goes on. A change begins the row of retries anew."""


async def followed(
    read: Callable[[], Awaitable[ObservedNode]],
    places: NodePlaces,
    *,
    refresh_s: float | None = None,
    told: Changes | None = None,
) -> AsyncGenerator[ObservedNode, None]:
    """Views without end: one at once, then one after each change.

    A kubelet writes its checkpoint when it gives devices and when their health changes, and makes and removes
    directories of pods, so that all of this is noticed at once and without asking. While a view is partial, the node is
    read again after `FIRST_RETRY_S`, and then ever more rarely until something changes.

    Args:
        refresh_s: also read after so long without a change, for sources that tell of none, as pages do.
        told: also read when this is notified, of what leaves no trace on the disk.
    """
    told = told or Changes()
    directories = (places.kubelet.device_plugins, places.pods, places.pod_logs)
    async with watch_paths((*directories, places.kubelet.pod_resources_socket), settle_s=SETTLE_S) as changes:
        retry_s = FIRST_RETRY_S
        while True:
            seen, settled_at = told.version, asyncio.get_running_loop().time() + SETTLE_S
            view = await read()
            yield view
            wait_s = retry_s if view.is_partial else refresh_s
            if await first(changes.__anext__(), _moved(told, seen, settled_at), timeout_s=wait_s):
                retry_s = FIRST_RETRY_S
            else:
                retry_s = min(2 * retry_s, LAST_RETRY_S)


async def _moved(told: Changes, seen: int, settled_at: float) -> None:
    """Return after a change, and not before a moment of the loop's clock; watched paths settle by themselves."""
    await told.after(seen)
    await asyncio.sleep(settled_at - asyncio.get_running_loop().time())
