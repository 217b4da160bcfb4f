"""The journal on disk: a later plugbay knows the uses that an earlier one wrote down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.model.assignments import AssignmentKey, Origin, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.ledger.lines import Answered, Closed, Header, Record, encode, read
from plugbay.sdk.release.uses import KubeletLife, Use, UsePhase

GOLDEN: Final = Path(__file__).parents[3] / "golden/sdk/release"
RESOURCE: Final = ResourceName("example.com/gopher")
HEADER: Final = Header("0b9e2c7a-boot", RESOURCE)
LIFE: Final = KubeletLife("life-2", 12.5, frozenset({"life-1", "life-0"}), "store-1")
OPEN: Final = Use(
    key=AssignmentKey("use-1"),
    resource=RESOURCE,
    units={DeviceId("g1"): DeviceId("g1::0"), DeviceId("g2"): DeviceId("g2::1")},
    since=20.25,
    life="life-2",
    phase=UsePhase.OPEN,
    seen_in="life-2",
    pod=PodUid("6f1c2d3e"),
    owners=(Owner(namespace="lab", pod="burrow", container=ContainerName("digger"), uid=PodUid("6f1c2d3e")),),
    started=frozenset({DeviceId("g2::1")}),
    stops=1,
    origin=Origin.SYNTHESISED,
    is_overtaken=True,
)
YOUNG: Final = Use(
    key=AssignmentKey("use-2"), resource=RESOURCE, units={DeviceId("g3"): DeviceId("g3")}, since=30.0, life="life-2"
)
GONE: Final = Use(
    key=AssignmentKey("use-3"), resource=RESOURCE, units={DeviceId("g4"): DeviceId("g4")}, since=31.0, life="life-2"
)
LINES: Final[tuple[Record, ...]] = (
    HEADER,
    LIFE,
    OPEN,
    YOUNG,
    GONE,
    Answered(YOUNG.key, 30.5),
    Closed(GONE.key),
)


def test_lines_are_written_as_ever(golden: Callable[[str, str], None]) -> None:
    golden("journal", b"".join(map(encode, LINES)).decode())


def test_a_journal_of_an_earlier_plugbay_is_read() -> None:
    content = read((GOLDEN / "journal").read_bytes())
    assert (content.header, content.life, content.bad_lines) == (HEADER, LIFE, ())
    first, second = content.uses
    assert first == OPEN
    assert (second.key, second.units, second.phase, second.since) == (YOUNG.key, YOUNG.units, UsePhase.OPEN, 30.5)
