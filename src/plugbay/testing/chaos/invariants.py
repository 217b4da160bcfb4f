"""The state of a plugin before the faults, and what has to hold after them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.errors import AdmissionError, PluginProgramFailed
from plugbay.ops.tasks import first, ungrouped
from plugbay.testing.chaos.kept_program import KeptProgram
from plugbay.testing.local.expectations import ExpectationFailed
from plugbay.testing.local.kubelet import LocalKubelet
from plugbay.testing.tracing.program import failure_of, how_ended
from plugbay.values import dataclass

READY_S: Final = 20.0
"""The time that the plugin has to register and to send its lists before the faults begin."""
_QUIET_S: Final = 0.3
"""The time without another registration after which all resources are taken to be there."""
SPARE_DESCRIPTORS: Final = 4
"""So many more open files than before are not told of."""
_DESCRIPTORS_S: Final = 5.0
_AGAIN_S: Final = 0.1
_HEALTHY: Final = "Healthy"
_FEW: Final = 8


@dataclass(frozen=True, slots=True)
class Before:
    """The plugin before the faults.

    Attributes:
        health: device ID to health, by resource.
        descriptors: its open files, those of processes below it included.
    """

    health: Mapping[str, Mapping[str, str]]
    descriptors: int


async def look_before(kubelet: LocalKubelet, program: KeptProgram) -> Before:
    """Wait until the plugin is ready, allocate a device of each resource once, and look.

    Raises:
        PluginProgramFailed: it ends, or is not ready in time, or refuses.
    """
    try:
        with ungrouped():
            await first(kubelet.wait_for(lambda: _is_ready(kubelet), within_s=READY_S), _until_ended(program))
    except ExpectationFailed:
        raise _failed(program, f"has not registered and listed a healthy device within {READY_S:g} s") from None
    subject = program.last
    if subject is None or subject.ended.is_set() or program.endings:
        clause = program.endings[0] if program.endings else how_ended(subject) if subject else "was not started"
        raise _failed(program, f"{clause} before it was ready")
    known = -1
    while known != len(kubelet.sight.resources):
        known = len(kubelet.sight.resources)
        await asyncio.sleep(_QUIET_S)
    health = {resource: dict(devices) for resource, devices in kubelet.health.items()}
    for resource in health:
        if (problem := await _allocate(kubelet, resource, health[resource])) is not None:
            raise _failed(program, problem)
    return Before(health, await _descriptors(program))


async def look_after(kubelet: LocalKubelet, program: KeptProgram, before: Before, *, recover_s: float) -> list[str]:
    """The sentences about what does not hold; empty if all does.

    Args:
        recover_s: the time in which the plugin has to be registered again, with the same devices.
    """
    await asyncio.sleep(_AGAIN_S)  # the last fault has to show
    problems = await _problems(kubelet, before, recover_s=recover_s)
    if problems:
        return problems
    if (grown := await _grown(program, before)) is not None:
        problems.append(grown)
    if program.crashed:
        problems.append(f"the plugin {' and '.join(dict.fromkeys(program.endings))}")
    return problems


async def _problems(kubelet: LocalKubelet, before: Before, *, recover_s: float) -> list[str]:
    """Wait until all devices are as before and can be allocated; if that does not come to pass, why."""
    devices = {resource: list(health) for resource, health in before.health.items()}
    until = asyncio.get_running_loop().time() + recover_s
    refusals: list[str] = []
    while (left_s := until - asyncio.get_running_loop().time()) > 0:
        try:
            await kubelet.wait_for(devices=devices, health=before.health, within_s=left_s)
        except ExpectationFailed:
            break
        allocations = [await _allocate(kubelet, resource, health) for resource, health in before.health.items()]
        refusals = [each for each in allocations if each is not None]
        if not refusals and not any(_changes(before, kubelet, "")):
            return []
        await asyncio.sleep(_AGAIN_S)
    return list(_changes(before, kubelet, f"{recover_s:g} s after the faults")) or refusals


def _changes(before: Before, kubelet: LocalKubelet, when: str) -> Iterator[str]:
    """A sentence for each resource that is not as before."""
    sight = kubelet.sight.resources
    for resource, devices in before.health.items():
        now = sight[resource].devices if resource in sight else {}
        if now == devices:
            continue
        changes = [
            *(f"{device} is missing" for device in devices if device not in now),
            *(f"{device} is new" for device in now if device not in devices),
            *(
                f"{device} is {now[device]}, and was {was}"
                for device, was in devices.items()
                if now.get(device, was) != was
            ),
        ]
        plugin = sight[resource].plugin if resource in sight else "the kubelet does not know it"
        more = f" and {len(changes) - _FEW} more" if len(changes) > _FEW else ""
        yield f"{resource} {when}: {plugin}; {', '.join(changes[:_FEW])}{more}"


def _is_ready(kubelet: LocalKubelet) -> bool:
    """Whether a plugin is registered, and has sent a list with a healthy device."""
    return any(_HEALTHY in devices.values() for devices in kubelet.health.values())


async def _until_ended(program: KeptProgram) -> None:
    async for _ in program.changes:
        if program.endings:
            return


async def _allocate(kubelet: LocalKubelet, resource: str, health: Mapping[str, str]) -> str | None:
    """Give a pod a device, and take it back; the sentence about what went wrong."""
    if _HEALTHY not in health.values():
        return None
    try:
        pod = await kubelet.admit({resource: 1})
    except AdmissionError as error:
        return f"a pod with one device of {resource} is refused: {error}"
    try:
        await kubelet.start(pod)
    except AdmissionError as error:
        return f"a container with a device of {resource} cannot start: {error}"
    finally:
        await kubelet.end(pod)
    return None


async def _grown(program: KeptProgram, before: Before) -> str | None:
    """The sentence about open files that are more than before, and stay."""
    most = before.descriptors + SPARE_DESCRIPTORS
    until = asyncio.get_running_loop().time() + _DESCRIPTORS_S
    while (now := await _descriptors(program)) > most:
        if asyncio.get_running_loop().time() >= until:
            return f"the plugin has {now} open files, and had {before.descriptors} before the faults"
        await asyncio.sleep(_AGAIN_S)
    return None


async def _descriptors(program: KeptProgram) -> int:
    assert program.last is not None
    return (await program.last.usage()).descriptors


def _failed(program: KeptProgram, problem: str) -> PluginProgramFailed:
    if program.last is None:
        return PluginProgramFailed(program.command.words[0], problem, "")
    return failure_of(program.command, program.last, problem)
