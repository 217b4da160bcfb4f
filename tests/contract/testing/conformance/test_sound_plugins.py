"""Plugins that do something uncommon which no kubelet and no runtime minds pass."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import pytest

from plugbay.testing.conformance.findings import RuleOutcome
from tests.contract.testing.conformance.judged import failed, findings, judged, python

GIVES_NODE: Final = """
import asyncio, sys
from pathlib import Path
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.edits import GenerousAnimal

class GivesNode(GenerousAnimal):
    extra = pb.ContainerAllocateResponse(
        devices=[pb.DeviceSpec(container_path="/dev/thing", host_path=HOST_PATH, permissions="rw")]
    )

root = Path(sys.argv[1])
asyncio.run(GivesNode(root / "device-plugins", root / "sick").run())
"""
EDITS: Final = ("PB411", "PB412")
WAITS_FOR_FIRST: Final = """
import asyncio, fcntl, sys
from pathlib import Path
from tests.contract.testing.zoo.animal import Animal

root = Path(sys.argv[1])
turn = (root / "turn").open("w")
fcntl.flock(turn, fcntl.LOCK_EX)
asyncio.run(Animal(root / "device-plugins", root / "sick").run())
"""
"""Registers when no other instance runs."""
TEN_WORKERS: Final = """
import asyncio, sys
from pathlib import Path
from tests.contract.testing.zoo.containers import FewWorkers

class TenWorkers(FewWorkers):
    workers = 10

root = Path(sys.argv[1])
asyncio.run(TenWorkers(root / "device-plugins", root / "sick").run())
"""
SLOW_BESIDE_OTHERS: Final = """
import asyncio, sys
from pathlib import Path
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal

root = Path(sys.argv[1])

class SlowBesideOthers(Animal):
    async def allocate(self, request: pb.AllocateRequest) -> pb.AllocateResponse:
        if len(list(root.parent.iterdir())) > 1:
            await asyncio.sleep(1.2)
        return await super().allocate(request)

asyncio.run(SlowBesideOthers(root / "device-plugins", root / "sick").run())
"""
"""Needs the machine for itself: another instance has a root beside its own."""


async def found_on_node(host_path: Path, places: Path) -> list[str]:
    report = await judged(python(GIVES_NODE.replace("HOST_PATH", repr(str(host_path)))), *EDITS, places=places)
    assert failed(report) in ([], ["PB412"]), report.verdicts
    return findings(report, "PB412")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device node")
async def test_directory_stands_for_the_devices_below_it(tmp_path: Path, sockets: Path) -> None:
    """As /dev/bus/usb, whose devices lie in a directory for each bus."""
    bus = tmp_path / "usb" / "001"
    bus.mkdir(parents=True)
    os.mknod(bus / "001", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    assert await found_on_node(tmp_path / "usb", sockets) == []


async def test_fifo_can_be_a_device_node(tmp_path: Path, sockets: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert await found_on_node(tmp_path / "pipe", sockets) == []


async def test_directory_of_which_a_container_gets_nothing_is_told(tmp_path: Path, sockets: Path) -> None:
    """The links in it, its FIFOs and what lies below ``shm`` are left out by runtimes."""
    (tmp_path / "things" / "shm").mkdir(parents=True)
    os.mkfifo(tmp_path / "things" / "pipe")
    (tmp_path / "things" / "link").symlink_to("/dev/null")
    assert await found_on_node(tmp_path / "things", sockets) == [
        f"'{tmp_path}/things' is offered as a device node, and is a directory without devices"
    ]


async def test_second_instance_has_the_time_that_a_start_may_take(sockets: Path) -> None:
    report = await judged(python(WAITS_FOR_FIRST), "PB907", places=sockets, ready_timeout_s=4)
    assert findings(report, "PB907") == ["a second instance did not register within 4 s"]


async def test_pool_of_ten_workers_is_large_enough(sockets: Path) -> None:
    """As grpcio's server has them by a common example: each open stream takes one."""
    report = await judged(python(TEN_WORKERS), "PB802", "PB804", places=sockets)
    assert [each.outcome for each in report.verdicts] == [RuleOutcome.PASSED] * 2, report.verdicts


async def test_what_goes_by_the_clock_is_looked_at_again_alone(sockets: Path) -> None:
    report = await judged(python(SLOW_BESIDE_OTHERS), "PB424", "PB425", "PB809", places=sockets)
    assert [each.outcome for each in report.verdicts] == [RuleOutcome.PASSED] * 3, report.verdicts
