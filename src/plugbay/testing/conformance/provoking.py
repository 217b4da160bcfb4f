"""Make devices change: the command that users give for it, and how it is called."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from enum import Enum
from typing import Final

from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.stage import Stage

CANNOT: Final = 3
"""The exit code by which the command says that it cannot make this change."""
_PROVOKE_S: Final = 30.0
_SHOWN: Final = 300


class DeviceChange(Enum):
    """The changes; their values are those of the variable PLUGBAY_CHANGE."""

    DISAPPEAR = "disappear"
    APPEAR = "appear"
    FAIL = "fail"
    RECOVER = "recover"


async def provoke(stage: Stage, change: DeviceChange, device: str) -> bool:
    """Run the command in a shell; False if it cannot make this change.

    It finds the change in PLUGBAY_CHANGE, the device's ID in PLUGBAY_DEVICE, its resource in PLUGBAY_RESOURCE and the
    kubelet's root in PLUGBAY_ROOT. For `DeviceChange.APPEAR` the device is the one that disappeared before.

    Raises:
        NotApplicable: no command was given.
        CannotJudge: it failed, or had no end.
    """
    if not stage.settings.provoke:
        raise NotApplicable("devices change only with --provoke")
    stage.trace.note(f"provoke: {change.value} {device!r}")
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        stage.settings.provoke,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        env={
            **stage.settings.environ,
            "PLUGBAY_CHANGE": change.value,
            "PLUGBAY_DEVICE": device,
            "PLUGBAY_RESOURCE": stage.resource,
            "PLUGBAY_ROOT": str(stage.root),
        },
    )
    try:
        async with asyncio.timeout(_PROVOKE_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CannotJudge(f"the --provoke command did not {change.value} {device!r} in {_PROVOKE_S:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode == CANNOT:
        return False
    if process.returncode:
        said = output.decode(errors="backslashreplace").strip()[-_SHOWN:]
        code = process.returncode
        raise CannotJudge(f"the --provoke command failed to {change.value} {device!r}, exit code {code}: {said}")
    return True
