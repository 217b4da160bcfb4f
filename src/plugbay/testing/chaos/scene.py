"""A kubelet and a plugin, to both of which a chaos run does what its steps say."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from plugbay.errors import PlugbayError
from plugbay.testing.chaos.kept_program import KeptProgram
from plugbay.testing.chaos.steps import ChaosStep, StepKind
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.local.pods import AdmittedPod

CALL_S: Final = 5.0
"""The time that the plugin has for a call of the kubelet."""
_LISTS: Final = "ListAndWatch"


class ChaosScene:
    """Attributes:
    kubelet: it runs between steps.
    program: the plugin.
    """

    def __init__(self, kubelet: LocalKubelet, program: KeptProgram, tasks: asyncio.TaskGroup) -> None:
        self.kubelet = kubelet
        self.program = program
        self._tasks = tasks
        self._calls: set[asyncio.Task[None]] = set()
        self._pods: dict[str, AdmittedPod] = {}

    async def perform(self, step: ChaosStep, resources: Mapping[str, object]) -> None:
        """Do what ``step`` says.

        Args:
            resources: those of the plugin; pods ask for them in turn.
        """
        faults = self.kubelet.faults
        match step.kind:
            case StepKind.RESTART:
                await self._restart(step.amount)
            case StepKind.CRASH:
                await self._restart(step.amount, crash=True)
            case StepKind.RESTART_KEEPING:
                await self._restart(step.amount, keep_sockets=True)
            case StepKind.REMAKE_DIRECTORY:
                await self._restart(step.amount, removes_directory=True)
            case StepKind.REMOVE_SOCKETS:
                await asyncio.to_thread(self._remove_sockets)
            case StepKind.RESET_STREAMS:
                faults.reset(method=_LISTS, times=None).off()
            case StepKind.RESET_CONNECTIONS:
                faults.reset_connection(method=_LISTS, times=None).off()
            case StepKind.SLOW:
                faults.delay(step.amount)
            case StepKind.HANG:
                faults.hang(method="Register")
            case StepKind.REFUSE:
                faults.refuse(times=int(step.amount))
            case StepKind.CALM:
                faults.all_off()
            case StepKind.ALLOCATE:
                self._admit(int(step.amount), list(resources))
            case StepKind.FREEZE:
                await self.program.freeze(step.amount)
            case StepKind.KILL:
                await self.program.kill()
            case StepKind.TERMINATE:
                await self.program.terminate()
            case StepKind.PAUSE:
                await asyncio.sleep(step.amount)
            case StepKind.CHECK:
                await self.calm()

    async def calm(self) -> None:
        """End all faults and all pods."""
        self.kubelet.faults.all_off()
        if self._calls:
            await asyncio.wait(self._calls)
        for pod in tuple(self._pods.values()):
            with suppress(PlugbayError):
                await self.kubelet.end(pod)
        self._pods.clear()

    async def _restart(
        self, down_s: float, *, crash: bool = False, keep_sockets: bool = False, removes_directory: bool = False
    ) -> None:
        await self.kubelet.stop_kubelet(crash=crash)
        if removes_directory:
            await asyncio.to_thread(shutil.rmtree, self.kubelet.paths.device_plugins, ignore_errors=True)
        await asyncio.sleep(down_s)
        await self.kubelet.start_kubelet(keep_sockets=keep_sockets)

    def _remove_sockets(self) -> None:
        directory = self.kubelet.paths.device_plugins
        for entry in directory.iterdir():
            if entry.is_socket() and entry != self.kubelet.paths.registration_socket:
                entry.unlink(missing_ok=True)

    def _admit(self, count: int, resources: list[str]) -> None:
        for number in range(count):
            task = self._tasks.create_task(self._run_pod(resources[number % len(resources)]), name="pod of chaos")
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _run_pod(self, resource: str) -> None:
        """Admit a pod, prepare its container and end it; whatever fails, fails because of the faults."""
        with suppress(PlugbayError):
            pod = await self.kubelet.admit({resource: 1})
            self._pods[pod.uid] = pod  # it is ended later, should the kubelet be down when its turn has come
            await self.kubelet.start(pod)
            await self.kubelet.end(pod)
            del self._pods[pod.uid]
