"""Calls an author's `post_stop` and `release`, each operation once however often it is asked for.

A manager asks again when it got no answer in time, or was restarted. A call for an operation that is under way waits
for it; a call for one that was done is answered at once, as long as this process remembers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from plugbay.errors import CannotRelease, RpcCode, RpcFailed
from plugbay.model.assignments import Assignment, AssignmentKey
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.releases import OperationId
from plugbay.sdk.hooks.calls import call

REMEMBERED: Final = 4096
"""Operations that were done; a manager keeps an operation for a day at most, and forgets it once it is answered."""


class ReleaseHooks:
    """The hooks of one plugin in use. They run in `run`, and so outlast a call that its manager gave up."""

    def __init__(self) -> None:
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[OperationId, asyncio.Future[None]] = {}
        self._done: dict[OperationId, None] = {}

    async def run(self) -> None:
        """Run until cancelled, and cancel hooks that run then."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    async def once(self, operation: OperationId, hook: Callable[[Assignment], Any], assignment: Assignment) -> None:
        """Call ``hook`` for ``operation``, unless it was called before; returns when it is done.

        Raises:
            RpcFailed: it failed for good, or the plugin is about to end.
            Exception: the hook raised something else; the next repeat calls it again.
        """
        if operation and operation in self._done:
            return
        running = self._running.get(operation) if operation else None
        if running is None:
            running = self._begin(operation, hook, assignment)
        await asyncio.shield(running)

    def _begin(
        self, operation: OperationId, hook: Callable[[Assignment], Any], assignment: Assignment
    ) -> asyncio.Future[None]:
        if self._tasks is None:
            raise RpcFailed(RpcCode.UNAVAILABLE, "the plugin does not serve")
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        outcome.add_done_callback(_seen)
        if operation:
            self._running[operation] = outcome
        self._tasks.create_task(self._call(operation, hook, assignment, outcome), name=f"{assignment}")
        return outcome

    async def _call(
        self,
        operation: OperationId,
        hook: Callable[[Assignment], Any],
        assignment: Assignment,
        outcome: asyncio.Future[None],
    ) -> None:
        try:
            await call(hook, assignment)
        except CannotRelease as error:
            outcome.set_exception(RpcFailed(RpcCode.FAILED_PRECONDITION, str(error)))
        except Exception as error:  # an author's code may raise anything; the caller learns it
            outcome.set_exception(error)
        except asyncio.CancelledError:
            outcome.set_exception(RpcFailed(RpcCode.UNAVAILABLE, "the plugin ends"))
            raise
        else:
            self._remember(operation)
            outcome.set_result(None)
        finally:
            self._running.pop(operation, None)

    def _remember(self, operation: OperationId) -> None:
        if operation:
            self._done[operation] = None
        while len(self._done) > REMEMBERED:
            del self._done[next(iter(self._done))]


def assignment_of(
    operation: OperationId, resource: ResourceName, *, devices: Sequence[DeviceId], units: Sequence[DeviceId]
) -> Assignment:
    """The argument of a hook. Managers do not tell which pod had the devices.

    Args:
        devices: the plugin's devices behind ``units``, the names that the manager knows.
    """
    import uuid  # most plugins never get here, and it takes a quarter of a megabyte

    return Assignment(
        key=AssignmentKey(operation or str(uuid.uuid4())),
        resource=resource,
        device_ids=tuple(dict.fromkeys(devices)),
        units=tuple(dict.fromkeys(units)),
    )


def _seen(outcome: asyncio.Future[None]) -> None:
    """The caller may be gone by now: an error that is not read is not an error."""
    if not outcome.cancelled():
        outcome.exception()
