"""One MPS control daemon: its directories, its start, and its end.

Source: k8s-device-plugin 0.20 ``cmd/mps-control-daemon/mps/daemon.go``; NVIDIA's "Multi-Process Service", release 580;
spec 8.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from plugbay.errors import GpusUnusable, PathUnusable
from plugbay.ops.tasks import first
from plugbay.plugins.nvidia.mps.daemon_log import DaemonLog
from plugbay.plugins.nvidia.mps.plan import MpsPlan
from plugbay.plugins.nvidia.mps.programs import PERCENTAGE, MpsPlace, MpsPrograms, run_program, tell_daemon

logger = logging.getLogger(__name__)

_EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"
_DEFAULT: Final = "DEFAULT"
_SELINUX: Final = Path("/sys/fs/selinux")
_SELINUX_LABEL: Final = b"system_u:object_r:container_file_t:s0\0"
_ASK_S: Final = 0.1
_QUIT_S: Final = 5.0


class MpsDaemon:
    """Runs a daemon as a child process, in the foreground, so that its end is noticed at once.

    Args:
        told: called when clients can use the daemon, and when they no longer can.
    """

    def __init__(
        self, plan: MpsPlan, place: MpsPlace, programs: MpsPrograms, told: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._plan = plan
        self._place = place
        self._programs = programs
        self._told = told

    async def run(self) -> None:
        """Run until cancelled; then the daemon quits, and its GPUs are as before.

        Raises:
            GpusUnusable: the daemon does not start, or has ended.
            PathUnusable: its directories cannot be made.
        """
        try:
            for gpu in self._plan.gpus:
                await self._set_mode(gpu.uuid, _EXCLUSIVE)
            await asyncio.to_thread(self._make_directories)
            with contextlib.suppress(GpusUnusable):  # there is none, unless we were killed
                await tell_daemon(self._programs, self._place, "quit")
            await self._serve()
        finally:
            await self._reset()

    async def _serve(self) -> None:
        process = await self._start()
        log, output = DaemonLog(self._plan.resource, self._place.log), process.stdout
        assert output is not None
        try:
            await self._until_answering(process)
            for command in self._plan.commands():
                await tell_daemon(self._programs, self._place, command)
            await asyncio.to_thread(self._place.started.touch)
            logger.info(
                "the MPS daemon of %s is ready: %d %% of the threads for each of its clients",
                self._plan.resource,
                self._plan.thread_percentage,
            )
            await self._told(True)
            await first(process.wait(), _for_ever(log.follow(output)), log.follow_file())
            raise GpusUnusable(f"it {_how_ended(process)}")
        finally:
            await self._told(False)
            await asyncio.to_thread(self._place.started.unlink, missing_ok=True)
            await self._quit(process)
            await log.rest(output)

    async def _start(self) -> Process:
        control = self._programs.control
        try:
            return await asyncio.create_subprocess_exec(
                *(control, "-f"),
                env=self._place.environ(self._programs),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,  # Ctrl-C is for us
            )
        except OSError as error:
            raise GpusUnusable(
                f"{control} cannot be run ({error.strerror}); it comes with the NVIDIA driver"
            ) from error

    async def _until_answering(self, process: Process) -> None:
        problem = GpusUnusable("it did not answer")
        try:
            async with asyncio.timeout(self._programs.answer_s):
                while process.returncode is None:
                    try:
                        await tell_daemon(self._programs, self._place, PERCENTAGE)
                    except GpusUnusable as error:
                        problem = error
                        await asyncio.sleep(_ASK_S)
                    else:
                        return
        except TimeoutError:
            raise problem from None
        raise GpusUnusable(f"it {_how_ended(process)} before it answered: {problem}")

    async def _quit(self, process: Process) -> None:
        if process.returncode is None:
            with contextlib.suppress(GpusUnusable):
                await tell_daemon(self._programs, self._place, "quit")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_QUIT_S):
                    await process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the servers that it started, too
        await process.wait()

    async def _reset(self) -> None:
        for gpu in self._plan.gpus:
            try:
                await self._set_mode(gpu.uuid, _DEFAULT)
            except GpusUnusable as error:
                logger.warning("GPU %s stays in the compute mode %s: %s", gpu.uuid, _EXCLUSIVE, error)
        await asyncio.to_thread(shutil.rmtree, self._place.log, ignore_errors=True)

    async def _set_mode(self, uuid: str, mode: str) -> None:
        await run_program(
            self._programs, self._programs.smi, *("-i", uuid, "-c", mode), environ=self._programs.variables
        )

    def _make_directories(self) -> None:
        try:
            for directory in (self._place.pipe, self._place.log):
                directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._place.started.unlink(missing_ok=True)
            if _SELINUX.is_dir():
                os.setxattr(self._place.pipe, "security.selinux", _SELINUX_LABEL)
        except OSError as error:
            raise PathUnusable(str(self._place.directory), f"cannot be made: {error.strerror}") from error


async def _for_ever(work: Awaitable[None]) -> None:
    """Do ``work``, and go on waiting: a daemon that closes its output has not ended."""
    await work
    await asyncio.Event().wait()


def _how_ended(process: Process) -> str:
    code = process.returncode
    if code is None:
        return "is still running"
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
