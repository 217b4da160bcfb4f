"""The store of record on disk: a later plugbay knows the devices that an earlier one gave away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import (
    SaveAssignments,
    SaveEnd,
    SaveName,
    SaveOperation,
    SavePreStarts,
    SaveResource,
    SaveViewChecksums,
    Stored,
)
from plugbay.manager.store.store import open_store
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind, ReleaseReason
from tests.unit.database_dumps import assert_same, restore

GOLDEN: Final = Path(__file__).parents[3] / "golden/manager/store"
POD: Final = PodUid("6f1c2d3e")
DIGGER: Final = ContainerName("digger")
GOPHER: Final = ResourceName("example.com/gopher")
HELD: Final = HeldDevices(
    POD, DIGGER, GOPHER, {-1: (DeviceId("g1"),), 1: (DeviceId("gé"), DeviceId("g3"))}, b"\n\x03abc"
)
OPERATIONS: Final = tuple(
    Operation(
        id=OperationId(f"operation-{number}"),
        kind=kind,
        resource=GOPHER,
        devices=(DeviceId("g1"), DeviceId("gé")),
        pod=POD,
        due=datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
        container=DIGGER,
        instance="c1",
        reason=reason,
        attempts=number,
    )
    for number, (kind, reason) in enumerate(
        (
            *((kind, ReleaseReason.UNSPECIFIED) for kind in OperationKind),
            *((OperationKind.DEALLOCATE, reason) for reason in ReleaseReason),
        )
    )
)
STORED: Final = Stored(
    (HELD,),
    (GOPHER,),
    frozenset({1, 1 << 63}),
    OPERATIONS,
    {(POD, DIGGER): "c1"},
    frozenset({GOPHER}),
    "node-1",
)


async def test_the_store_is_written_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "devices.db"
    async with open_store(path) as store:
        await store.commit(
            [
                SaveAssignments((HELD,)),
                *map(SaveOperation, OPERATIONS),
                SaveEnd(POD, DIGGER, "c1"),
                SaveResource(GOPHER),
                SaveViewChecksums(STORED.view_checksums),
                SavePreStarts(STORED.pre_starts),
                SaveName("node-1"),
            ]
        )
    assert_same(path, GOLDEN / "devices.sql")


async def test_the_store_of_an_earlier_plugbay_is_read(tmp_path: Path) -> None:
    restore(GOLDEN / "devices.sql", tmp_path / "devices.db")
    async with open_store(tmp_path / "devices.db") as store:
        assert store.load() == STORED


async def test_a_store_from_before_releases_is_read(tmp_path: Path) -> None:
    restore(GOLDEN / "devices-1.sql", tmp_path / "devices.db")
    async with open_store(tmp_path / "devices.db") as store:
        assert store.load() == Stored((HELD,), (GOPHER,), frozenset({1, 1 << 63}))
