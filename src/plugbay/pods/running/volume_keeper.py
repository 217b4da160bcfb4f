"""Keeps the volumes of one pod as its objects and fields are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import VolumeUnusable
from plugbay.model.pods import Pod, Volume
from plugbay.model.projections import Projection, TokenFile
from plugbay.ops.backoff import RESTARTS, Backoff
from plugbay.ops.tasks import first
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.configs import AccountToken, PodAccess
from plugbay.pods.running.host import PodHost
from plugbay.pods.running.projecting import (
    Payload,
    VolumeFiles,
    payload,
    with_account_volume,
)
from plugbay.pods.running.retries import Retries

_RENEWED: Final = 0.8
"""The part of a token's lifetime after which a new one takes its place."""
_LONGEST_USE: Final = timedelta(hours=24)
"""Source: kubelet 1.36 ``pkg/kubelet/token/token_manager.go`` (``requiresRefresh``)."""

_Written = TypeVar("_Written")


class VolumeKeeper:
    """The volumes of one pod.

    Args:
        retries: the waits of the pod, which end when something changed that it refers to.

    Attributes:
        access: what the pod's service account adds; known once `prepare` was called.
    """

    def __init__(self, pod: PodAccount, host: PodHost, retries: Retries) -> None:
        self._account = pod
        self._host = host
        self._retries = retries
        self._changed = asyncio.Event()
        self._is_watching = asyncio.Event()
        self._tokens: dict[TokenFile, AccountToken] = {}
        self._is_prepared = False
        self.access = PodAccess()

    @property
    def pod(self) -> Pod:
        """The pod as it is now, with the volume of its service account."""
        pod = self._account.record.pod
        return with_account_volume(pod) if self.access.mounts_token else pod

    async def prepare(self) -> Mapping[str, Path]:
        """Return where each volume lies, once all can be used; `follow` has to run beside it."""
        await self._is_watching.wait()
        self.access = await self._host.configs.access(self._account.record.pod)
        backoff = Backoff(RESTARTS)
        while True:
            moment = self._retries.moment
            try:
                paths = await self._write(self._host.volumes.prepare)
            except VolumeUnusable as error:
                self._account.warning("FailedMount", str(error))
                await self._retries.pause(backoff.next_delay_s(), since=moment)
            else:
                self._is_prepared = True
                self._changed.set()  # something may have changed meanwhile
                return paths

    def look(self) -> None:
        """Take note that the pod's labels or annotations changed."""
        self._changed.set()

    async def follow(self) -> None:
        """Have each change of what the pod refers to take effect, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            backoff = Backoff(RESTARTS)
            pause_s: float | None = None
            while True:
                await self._until_changed(pause_s)
                self._changed.clear()
                self._retries.wake()
                if not self._is_prepared:
                    continue
                try:
                    if self._projected():
                        await self._write(self._host.volumes.renew)
                except VolumeUnusable as error:
                    self._account.warning("FailedMount", str(error))
                    pause_s = backoff.next_delay_s()
                else:
                    backoff = Backoff(RESTARTS)
                    pause_s = self._until_renewal_s()

    async def _watch(self) -> None:
        async for _ in self._host.configs.changes(self._account.record.pod):
            if self._is_watching.is_set():
                self._changed.set()
            else:
                self._is_watching.set()

    async def _until_changed(self, pause_s: float | None) -> None:
        if pause_s is None:
            await self._changed.wait()
        else:
            await first(self._changed.wait(), self._account.clock.sleep(pause_s))

    def _projected(self) -> list[tuple[Volume, Projection]]:
        return [(each, each.source) for each in self.pod.spec.volumes if isinstance(each.source, Projection)]

    async def _write(self, write: Callable[[Pod, VolumeFiles], _Written]) -> _Written:
        """Make or renew the volumes. One whose objects are gone keeps the files that it has.

        Raises:
            VolumeUnusable: one has no files yet and cannot have them, or cannot be written.
        """
        pod = self.pod
        payloads: dict[str, Payload] = {}
        unmade: list[tuple[Volume, VolumeUnusable]] = []
        for volume, projection in self._projected():
            try:
                await self._renew_tokens(pod, volume.name, projection)
                payloads[volume.name] = payload(
                    volume.name,
                    projection,
                    pod,
                    lookup=self._host.configs.get,
                    tokens={file: token.text for file, token in self._tokens.items()},
                    capacity=self._host.capacity,
                )
            except VolumeUnusable as problem:
                unmade.append((volume, problem))

        def work() -> _Written:
            for volume, error in unmade:
                if not self._host.volumes.has_content(pod, volume):
                    raise error
            return write(pod, VolumeFiles(payloads, self._account.clock.now()))

        written = await self._host.as_one_step(partial(asyncio.to_thread, work))
        for _, error in unmade:
            self._account.warning("FailedMount", str(error))
        return written

    async def _renew_tokens(self, pod: Pod, volume: str, projection: Projection) -> None:
        now = self._account.clock.now()
        for file in projection.sources:
            if isinstance(file, TokenFile) and ((kept := self._tokens.get(file)) is None or _end_of_use(kept) <= now):
                self._tokens[file] = await self._host.configs.token(pod, file, volume=volume)

    def _until_renewal_s(self) -> float | None:
        if not self._tokens:
            return None
        end = min(_end_of_use(token) for token in self._tokens.values())
        return max(1.0, (end - self._account.clock.now()).total_seconds())


def _end_of_use(token: AccountToken) -> datetime:
    return token.issued_at + min(_RENEWED * (token.expires_at - token.issued_at), _LONGEST_USE)
