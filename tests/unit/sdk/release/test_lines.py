"""What a journal says, whole, torn and damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import PathUnusable
from plugbay.model.assignments import AssignmentKey, Origin, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.ledger import lines as records
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.lines import Answered, Closed, Header, Record
from plugbay.sdk.release.uses import KubeletLife, Use, UsePhase

RESOURCE = ResourceName("example.com/gopher")
HEADER = Header("boot", RESOURCE)
USE = Use(key=AssignmentKey("k1"), resource=RESOURCE, units={DeviceId("a::0"): DeviceId("a")}, since=1.5, life="7-8")
FULL = replace(
    USE,
    key=AssignmentKey("k2"),
    units={DeviceId("b"): DeviceId("b"), DeviceId("ü"): DeviceId("ü")},
    phase=UsePhase.RELEASING,
    seen_in="7-8",
    pod=PodUid("uid"),
    owners=(Owner(namespace="n", pod="p", container=ContainerName("c"), uid=PodUid("uid")),),
    started=frozenset({DeviceId("b")}),
    stops=3,
    origin=Origin.SYNTHESISED,
)


def lines(*written: Record) -> bytes:
    return b"".join(map(records.encode, written))


def test_everything_comes_back() -> None:
    content = records.read(lines(HEADER, KubeletLife("7-8", 2.0, frozenset({"5-6"})), USE, FULL))
    assert content.header == HEADER
    assert content.life == KubeletLife("7-8", 2.0, frozenset({"5-6"}))
    assert content.uses == (USE, FULL)
    assert content.bad_lines == ()


def test_later_lines_win() -> None:
    content = records.read(lines(HEADER, USE, Answered(USE.key, 13.5), FULL, Closed(FULL.key)))
    assert content.uses == (replace(USE, phase=UsePhase.OPEN, since=13.5),)


def test_answer_of_an_older_program_has_no_time() -> None:
    content = records.read(lines(HEADER, USE, Answered(USE.key, None)))
    assert content.uses == (replace(USE, phase=UsePhase.OPEN),)


@given(st.integers(0, len(lines(HEADER, USE, FULL))))
def test_torn_end_costs_its_line_only(length: int) -> None:
    whole = [lines(HEADER), lines(HEADER, USE), lines(HEADER, USE, FULL)]
    content = records.read(whole[-1][:length])
    assert content.bad_lines == ()
    assert len(content.uses) == sum(length >= len(each) for each in whole[1:])


@given(st.integers(0, len(lines(USE)) - 2), st.integers(0, 255))
def test_damaged_line_is_told_and_skipped(position: int, byte: int) -> None:
    damaged = bytearray(lines(USE))
    if damaged[position] == byte or byte == ord("\n"):
        return
    damaged[position] = byte
    content = records.read(lines(HEADER) + bytes(damaged) + lines(FULL))
    assert content.uses == (FULL,)
    assert content.bad_lines == (2,)


def test_unit_belongs_to_the_use_written_last() -> None:
    """Its end before may be on a lost line."""
    other = replace(USE, key=AssignmentKey("k3"), units={DeviceId("b"): DeviceId("b")})
    first, second = records.read(lines(HEADER, FULL, other)).uses
    assert list(first.units) == ["ü"]
    assert second == other


def test_overtaken_use_stays_beside_the_one_that_took_its_units() -> None:
    taken = replace(USE, phase=UsePhase.OPEN, is_overtaken=True)
    later = replace(USE, key=AssignmentKey("k3"))
    for written in ([taken, later], [later, taken]):
        assert records.read(lines(HEADER, *written)).uses == tuple(written)


# --- the file -------------------------------------------------------------------------------------------------------


def test_second_process_adds_and_does_not_own(tmp_path: Path) -> None:
    with Journal(tmp_path, RESOURCE, "boot") as first, Journal(tmp_path, RESOURCE, "boot") as second:
        assert first.try_to_own()
        assert not second.try_to_own()
        with first.alone():
            first.append(USE)
        assert not first.has_news
        with second.alone():
            second.append(FULL)
        assert first.has_news
        with first.alone():
            assert first.read().uses == (USE, FULL)
        rewritten = first.prepare(lambda content: content.uses[:1])
        with first.alone():
            assert first.replace(rewritten)
        with second.alone():
            assert second.has_news
            second.append(FULL)  # to the new file, not to the one that was replaced
            assert second.read().uses == (USE, FULL)


def test_torn_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    with Journal(tmp_path, RESOURCE, "boot") as journal, journal.alone():
        journal.append(USE)
    journal.path.write_bytes(journal.path.read_bytes() + lines(FULL)[:20])
    with Journal(tmp_path, RESOURCE, "boot") as again, again.alone():
        again.append(FULL)
        assert again.read().uses == (USE, FULL)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PathUnusable, match="cannot keep which devices are in use"),
        Journal(tmp_path / "file" / "d", RESOURCE, "boot"),
    ):
        raise AssertionError("it was made")
