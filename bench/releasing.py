"""How long a device stays out of use after its pod has ended, with a plugin that cleans it in no time."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

from bench.admission import p50, peer
from bench.figures import Figure, Pace

DEVICES: Final = 1_000
ENDS: Final = {Pace.FULL: 300, Pace.QUICK: 10}


async def releases(pace: Pace) -> AsyncIterator[Figure]:
    """Beside it, without a target, what PostStopContainer adds."""
    free_again = await free_again_ms("releasing", ENDS[pace])
    yield Figure("device_free_again_p50_ms", p50(free_again), "ms", 8)
    with_post_stop = await free_again_ms("cleaning", ENDS[pace])
    yield Figure("device_free_again_p50_ms_with_post_stop", p50(with_post_stop), "ms", None)


async def free_again_ms(plugin: str, count: int) -> list[float]:
    async with AsyncExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="pb"))
        manager = await stack.enter_async_context(peer("releasing", root, DEVICES, count))
        await manager.hear("serving")
        await stack.enter_async_context(peer("plugin", plugin, DEVICES, root))
        taken: list[float] = await manager.hear("free_again")
        return taken
