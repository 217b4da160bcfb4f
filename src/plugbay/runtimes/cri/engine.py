"""The engine behind the socket: what it can, and living through its absence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from plugbay.cdi.convert import NOTHING, Spelled, from_cdi
from plugbay.cdi.directories import scan
from plugbay.cdi.host import find_node
from plugbay.cdi.names import names_of
from plugbay.errors import (
    CdiInjectionFailed,
    ContainerEngineUnusable,
    ContainerStartError,
    InvalidCdiName,
    PathUnusable,
    RpcCode,
    RpcFailed,
    UnresolvableCdiDevices,
)
from plugbay.model.cri import CgroupDriver, EngineStatus, EngineVersion
from plugbay.model.edits import ContainerEdits
from plugbay.ops.clock import Clock
from plugbay.values import dataclass
from plugbay.wire.cri import CriClient, is_away

ANSWER_S: Final = 10.0
"""An engine that has just been started looks through what it runs before it answers."""
RETRY_S: Final = 0.5
LOOK_S: Final = 30.0
_HICCUP_S: Final = 0.5
_CRIO: Final = "cri-o"
_CRIO_WITH_CDI: Final = (1, 23)
_CONTAINERD_WITH_CDI: Final = (2, 0)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """The traits of an engine that do not change while it runs. ``injects_cdi``: whether it acts on CDI names."""

    version: EngineVersion
    cgroup_driver: CgroupDriver
    injects_cdi: bool


async def open_engine(socket: Path, clock: Clock) -> tuple[CriClient, EngineTraits]:
    """A connection to the engine at ``socket``, and what it can; the caller closes it.

    Raises:
        ContainerEngineUnusable: nothing answers there, or it speaks no CRI.
        PathTooLong: no socket can be there.
    """
    client = CriClient(socket)
    try:
        return client, await _traits(client, clock)
    except TimeoutError as error:
        await client.close()
        problem = "nothing answers there" if await asyncio.to_thread(socket.exists) else "there is no such file"
        raise ContainerEngineUnusable(str(socket), problem) from error
    except RpcFailed as error:
        await client.close()
        problem = str(error)
        if error.code is RpcCode.UNIMPLEMENTED:  # as Docker sets containerd up
            problem = f"it has no CRI v1 (containerd has, unless its setting disabled_plugins names cri): {error}"
        raise ContainerEngineUnusable(str(socket), problem) from error
    except BaseException:
        await client.close()
        raise


async def _traits(client: CriClient, clock: Clock) -> EngineTraits:
    await client.connect(ANSWER_S)
    deadline = clock.monotonic() + ANSWER_S
    while True:
        try:
            version = await client.version()
            status = await client.status()
            driver = await client.cgroup_driver()
            break
        except RpcFailed as error:
            if not is_away(error) or clock.monotonic() > deadline:
                raise
        await clock.sleep(RETRY_S)
    return EngineTraits(version, driver or configured_driver(version, status), injects_cdi(version, status))


async def insist(client: CriClient, clock: Clock, call: Callable[[], Awaitable[_Result]]) -> _Result:
    """The result of ``call``, which is made again as long as the engine is away."""
    while True:
        try:
            return await call()
        except RpcFailed as error:
            if not is_away(error):
                raise
        await clock.sleep(RETRY_S)
        with contextlib.suppress(TimeoutError):
            await client.connect(ANSWER_S)


async def absences(
    client: CriClient, clock: Clock, *, look_s: float = LOOK_S, answer_s: float = ANSWER_S
) -> AsyncIterator[str]:
    """Why the engine cannot be asked, whenever that begins, and an empty text when it can be again.

    Args:
        look_s: how often to ask it something: nothing else tells of an engine that hangs.
        answer_s: how long it may take to answer.
    """
    while True:
        try:
            async with asyncio.timeout(look_s):
                await client.until_lost()
            await client.connect(_HICCUP_S)
        except TimeoutError:
            if await _answers(client, answer_s):
                continue
            yield "it does not answer" if client.is_connected else "nothing answers at its socket"
            while not await _answers(client, answer_s):
                await clock.sleep(RETRY_S)
                with contextlib.suppress(TimeoutError):
                    await client.connect(answer_s)
            yield ""


async def _answers(client: CriClient, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await client.version()
    except TimeoutError:
        return False
    except RpcFailed as error:
        return not is_away(error)
    return True


def injects_cdi(version: EngineVersion, status: EngineStatus) -> bool:
    """Whether the engine knows CDI: one that does not takes the names and says nothing.

    containerd tells in its configuration: it has no such setting before 1.7, where it is off unless it was switched
    on; since 2.0 it is on unless it was switched off. CRI-O has no switch.
    """
    if version.name == _CRIO:
        return _numbers(version) >= _CRIO_WITH_CDI
    setting = _config(status).get("enableCDI")
    if isinstance(setting, bool):
        return setting
    return version.name == "containerd" and _numbers(version) >= _CONTAINERD_WITH_CDI


def configured_driver(version: EngineVersion, status: EngineStatus) -> CgroupDriver:
    """The driver of an engine too old to be asked: containerd shows it in the options of its default runtime, and CRI-O
    uses systemd unless it was configured otherwise."""
    if version.name == _CRIO:
        return CgroupDriver.SYSTEMD
    containerd = _config(status).get("containerd")
    if not isinstance(containerd, dict):
        return CgroupDriver.CGROUPFS
    runtimes = containerd.get("runtimes")
    chosen = runtimes.get(containerd.get("defaultRuntimeName")) if isinstance(runtimes, dict) else None
    options = chosen.get("options") if isinstance(chosen, dict) else None
    uses_systemd = isinstance(options, dict) and options.get("SystemdCgroup") is True
    return CgroupDriver.SYSTEMD if uses_systemd else CgroupDriver.CGROUPFS


def _numbers(version: EngineVersion) -> tuple[int, int]:
    found = re.match(r"v?(\d+)\.(\d+)", version.version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _config(status: EngineStatus) -> dict[str, object]:
    try:
        config = json.loads(status.config)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def expand_cdi(edits: ContainerEdits, directories: Sequence[Path]) -> Spelled:
    """The CDI devices that ``edits`` name, in other words for an engine that knows nothing of CDI; some cannot be said.

    Waits for the disk if ``edits`` name any.

    Args:
        directories: of spec files, weakest first; read anew each time.

    Raises:
        ContainerStartError: they are not defined, or hold what only an engine with CDI could do, such as hooks.
    """
    try:
        names = names_of(edits.cdi_devices, edits.annotations)
        if not names:
            return NOTHING
        return from_cdi(scan(directories).edits(names), names=[str(name) for name in names], find=find_node)
    except (InvalidCdiName, UnresolvableCdiDevices, CdiInjectionFailed, PathUnusable) as error:
        raise ContainerStartError("CreateContainerError", f"CDI device injection failed: {error}") from error
