"""Ask a kubelet's PodResources service, within a deadline, and for no more than is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import PathTooLong, RpcCode, RpcFailed
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.model.podresources import AllocatableResources, PodResources
from plugbay.observe.view import ReadingProblem, Witness
from plugbay.values import dataclass

DEADLINE_S: Final = 5.0
_Answer = TypeVar("_Answer")


class AllowedCalls(Enum):
    """The calls that an onlooker makes; the value is the word of ``--ask``."""

    LIST = "list"
    """All of them. List makes a stock kubelet free devices of pods that have ended, which can go wrong during an
    Allocate (spec 4.9.2)."""
    HARMLESS = "harmless"
    """GetAllocatableResources and Get, which change nothing."""
    NOTHING = "nothing"
    """None: files tell enough of who holds what."""


@dataclass(frozen=True, slots=True)
class PodResourcesAnswers:
    """The answers that came; None for what was not asked or not answered."""

    pods: tuple[PodResources, ...] | None = None
    allocatable: AllocatableResources | None = None
    problems: tuple[ReadingProblem, ...] = ()


async def ask_pod_resources(
    path: Path, asking: AllowedCalls, *, pod: tuple[str, str] | None = None, deadline_s: float = DEADLINE_S
) -> PodResourcesAnswers:
    """Ask all that ``asking`` allows, at once.

    Args:
        pod: namespace and name of the only pod that is wanted: it is asked for by Get, which changes nothing.
    """
    if asking is AllowedCalls.NOTHING:
        return PodResourcesAnswers()
    if problem := await asyncio.to_thread(_problem_of, path):
        return PodResourcesAnswers(problems=(ReadingProblem(Witness.POD_RESOURCES, problem),))
    try:
        client = PodResourcesClient(path)
    except PathTooLong as error:
        return PodResourcesAnswers(problems=(ReadingProblem(Witness.POD_RESOURCES, str(error)),))
    asked = _Asked(deadline_s)
    async with client, asyncio.TaskGroup() as calls:
        allocatable = calls.create_task(asked.call("GetAllocatableResources", client.allocatable))
        if pod is not None:
            pods = calls.create_task(asked.call("Get", lambda: _get(client, *pod, or_list=asking is AllowedCalls.LIST)))
        elif asking is AllowedCalls.LIST:
            pods = calls.create_task(asked.call("List", lambda: _list(client)))
        else:
            pods = None
    return PodResourcesAnswers(
        None if pods is None else pods.result(), allocatable.result(), tuple(dict.fromkeys(asked.problems))
    )


async def _get(client: PodResourcesClient, namespace: str, name: str, *, or_list: bool) -> tuple[PodResources, ...]:
    """One pod. A kubelet that has Get switched off, as those before 1.36 do, is asked for all if that is allowed."""
    try:
        found = await client.get(namespace, name)
        return () if found is None else (found,)
    except RpcFailed as error:
        if not or_list or error.code is RpcCode.UNAVAILABLE:
            raise
        return tuple(pod for pod in await _list(client) if (pod.namespace, pod.name) == (namespace, name))


async def _list(client: PodResourcesClient) -> tuple[PodResources, ...]:
    try:
        return await client.list()
    except RpcFailed as error:
        if error.code is not RpcCode.UNIMPLEMENTED:
            raise
        return await client.list_v1alpha1()


class _Asked:
    """Calls with one deadline, and the sentences about those that failed."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self.problems: list[ReadingProblem] = []

    async def call(self, method: str, answer: Callable[[], Awaitable[_Answer]]) -> _Answer | None:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await answer()
        except TimeoutError:
            is_lasting, why = (
                False,
                f"the kubelet has not answered {method} within {self._deadline_s:g} s: it hangs, or is very busy",
            )
        except RpcFailed as error:
            is_lasting, why = error.code is RpcCode.UNIMPLEMENTED, _sentence(method, error)
        self.problems.append(ReadingProblem(Witness.POD_RESOURCES, why, is_lasting))
        return None


def _sentence(method: str, error: RpcFailed) -> str:
    if error.code is RpcCode.UNAVAILABLE and "connection refused" in error.detail:
        return "the kubelet does not run: nothing listens at its PodResources socket"
    if error.code is RpcCode.UNIMPLEMENTED:
        return f"the kubelet is too old for {method}, or has it switched off"
    return f"the kubelet refuses {method}: {error.detail}"


def _problem_of(path: Path) -> str:
    """Why the socket cannot be connected to, as far as its file tells."""
    try:
        if path.is_socket():
            return ""
        path.lstat()
    except PermissionError:
        return f"the kubelet's {path} cannot be reached: permission denied; run it as root"
    except OSError as error:
        return f"no kubelet runs here: there is no PodResources socket at {path} ({(error.strerror or '').lower()})"
    return f"no kubelet runs here: {path} is not a socket"
