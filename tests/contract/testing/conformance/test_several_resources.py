"""Each resource of a plugin is judged by what becomes of it, whatever its other resources do meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome
from tests.contract.testing.conformance.judged import failed, judged, python

PLUGIN: Final = """
import asyncio, os, secrets, signal, sys
from pathlib import Path
from plugbay.errors import RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.testing import fake_plugin

paths = KubeletPaths(Path(sys.argv[1]))
instance = secrets.token_hex(4)

async def serve(number):
    '''Register one after another, and again whenever the kubelet hangs up, and never look at the own socket.'''
    await asyncio.sleep(number / 5)
    socket = paths.device_plugins / f"{instance}-{number}.sock"
    async with fake_plugin(f"example.com/r{number}", socket, [Device("d")]) as plugin:
        while True:
            try:
                await plugin.register(paths.registration_socket)
            except (OSError, RpcFailed):
                await asyncio.sleep(0.1)
            else:
                await plugin.until_unwatched()

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os._exit, 0)
    await asyncio.gather(*(serve(number) for number in range(COUNT)))

asyncio.run(main())
"""


def resources(count: int) -> tuple[str, ...]:
    return tuple(f"example.com/r{number}" for number in range(count))


async def judged_with(count: int, rule: str, places: Path) -> ConformanceReport:
    command = python(PLUGIN.replace("COUNT", str(count)))
    return await judged(command, rule, places=places, resources=resources(count))


async def test_second_instance_that_registers_many_resources_is_no_war(sockets: Path) -> None:
    report = await judged_with(6, "PB911", sockets)
    assert [each.outcome for each in report.verdicts] == [RuleOutcome.PASSED] * 6, report.verdicts


async def test_registration_of_another_resource_is_no_new_socket_of_this_one(sockets: Path) -> None:
    report = await judged_with(3, "PB707", sockets)
    assert failed(report) == ["PB707"] * 3, report.verdicts
