"""Whether a kubelet has stored what it was answered, before it is asked for its pods.

Asking makes it drop the assignments of pods that have ended, and then it takes devices for free that it has been given
and has not stored yet: the next pod gets them as well (spec 4.9.2). How long it takes nobody knows, and the process
that answered may have ended since. But what its checkpoint lists it has stored, or what it starts a container with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from plugbay.errors import CheckpointUnread
from plugbay.sdk.release.uses import GRACE_S, Phase, Use

if TYPE_CHECKING:
    from plugbay.sdk.release.custody import Custody


async def has_stored(custody: Custody) -> bool:
    """Whether it has all that was answered for one resource; what is older than `GRACE_S` it will never store."""
    if not custody.synthesises:  # its checkpoint is not to be read, or it is one that calls, and forgets nothing
        return True
    if not (young := _young(custody)):
        return True
    try:
        reading = await custody.read(young)
    except CheckpointUnread:
        return False
    return all(reading.listed.keys() & use.units.keys() for use in _young(custody))


def _young(custody: Custody) -> list[Use]:
    """What no checkpoint has listed yet, be it another process's; of calls of our own `quiet.Quiet` knows."""
    oldest = asyncio.get_running_loop().time() - GRACE_S
    return [
        use
        for use in custody.book.uses()
        if use.since > oldest
        and use.phase is not Phase.RELEASING
        and not (use.seen_in or use.started or use.is_overtaken)
        and use.key not in custody.allocating
    ]
