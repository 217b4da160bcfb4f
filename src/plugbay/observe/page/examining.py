"""Examine the node for readers of its page: one examination at a time, which all that ask meanwhile wait for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.documents import Json
from plugbay.observe.places import NodePlaces
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError

PATIENCE_S: Final = 30.0
MOST_HANGING: Final = 32
"""Threads of examinations that have ended without them; each examination of a broken node may leave one or two."""


class NodeExamination:
    """The examination that is going on, if there is one.

    A browser that goes away does not end it, and one that comes back does not begin a second: what hangs on a broken
    node hangs once.
    """

    def __init__(self, places: NodePlaces, clock: Clock) -> None:
        self._places = places
        self._clock = clock
        self._running: asyncio.Task[Json] | None = None

    async def diagnosis(self) -> Json:
        """The document of ``plugbay doctor --json``.

        Raises:
            HttpError: 503, while the examination hangs, or too much of earlier ones.
        """
        if self._running is None or self._running.done():
            from plugbay.observe.doctor.evidence.reading import hanging_readings  # looked for by few

            if hanging_readings() > MOST_HANGING:
                raise HttpError(
                    503,
                    "ServiceUnavailable",
                    f"more than {MOST_HANGING} readings of earlier examinations still hang, at a file system or a "
                    "process that does not answer; once it does, or plugbay has been started anew, ask again",
                )
            self._running = asyncio.create_task(self._examine(), name="examine the node for its page")
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.shield(self._running)
        except TimeoutError:
            raise HttpError(
                503,
                "ServiceUnavailable",
                f"the examination has not ended within {PATIENCE_S:g} s: a file system or a process of the node hangs; "
                "plugbay doctor in a terminal says which",
            ) from None

    async def close(self) -> None:
        """End the examination; what hangs in a thread of its own ends with the process."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _examine(self) -> Json:
        from plugbay.observe.doctor.catalogue import examine
        from plugbay.observe.doctor.document import diagnosis_document
        from plugbay.observe.doctor.evidence.host import Host
        from plugbay.observe.doctor.evidence.reading import read_evidence

        root, mount = self._places.kubelet.root, self._places.host
        host = Host(self._clock.now().timestamp(), kubelet_root=root)
        if root.is_relative_to(mount):
            host = replace(host, root=mount, kubelet_root=Path("/", root.relative_to(mount)))
        elif (mount / root.relative_to("/")).is_dir():  # the kubelet's directory is mounted once more, at its own path
            host = replace(host, root=mount)
        evidence = await read_evidence(host)
        diagnosis = await asyncio.to_thread(examine, evidence)
        return diagnosis_document(diagnosis, evidence, str(host.kubelet_root))
