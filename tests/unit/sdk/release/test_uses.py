"""What one reading proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.model.assignments import AssignmentKey, Origin, Owner
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.ledger.index import UseIndex
from plugbay.sdk.release.uses import GRACE_S, SETTLE_S, KubeletLife, Proof, Reading, Use, UsePhase, after, find, is_over

A, B = DeviceId("a"), DeviceId("b")
NOW = 1000.0
LIFE = KubeletLife("1", 0.0)
NEXT = KubeletLife("2", NOW - SETTLE_S)
USE = Use(
    key=AssignmentKey("k"),
    resource=ResourceName("example.com/gopher"),
    units={A: A, B: B},
    since=NOW - GRACE_S,
    life="1",
    phase=UsePhase.OPEN,
)
SEEN = replace(USE, seen_in="1", pod=PodUid("p"))
HOLDER = (PodUid("p"), ContainerName("app"))


def reading(*listed: DeviceId, life: KubeletLife = LIFE, gone: str = "", at: float = NOW) -> Reading:
    return Reading(at, life, {each: frozenset({HOLDER}) for each in listed}, frozenset({PodUid(gone)} - {""}))


@pytest.mark.parametrize(
    ("use", "said", "wanted", "finding"),
    [
        pytest.param(USE, reading(A, B), None, Proof.LISTED, id="all of it"),
        pytest.param(USE, reading(A), None, Proof.LISTED, id="one is enough"),
        pytest.param(USE, reading(A), [A], Proof.LISTED, id="the wanted one"),
        pytest.param(USE, reading(A), [B], Proof.CONTRADICTORY, id="but not the wanted one"),
        pytest.param(USE, reading(), [A], Proof.ABSENT, id="none, in the same life"),
        pytest.param(
            SEEN,
            replace(reading(), going_on=frozenset({SEEN.key})),
            [A],
            Proof.UNPROVEN,
            id="none, but its containers run",
        ),
        pytest.param(
            SEEN,
            replace(reading(gone="p"), going_on=frozenset({SEEN.key})),
            [A],
            Proof.UNPROVEN,
            id="no directory of its pod, but its containers run",
        ),
        pytest.param(
            SEEN,
            replace(reading(A, B), going_on=frozenset({SEEN.key})),
            [A],
            Proof.LISTED,
            id="listed, and its containers run",
        ),
        pytest.param(SEEN, reading(life=NEXT), None, Proof.UNPROVEN, id="none, after a restart"),
        pytest.param(
            replace(SEEN, seen_in="2"),
            reading(life=NEXT),
            None,
            Proof.ABSENT,
            id="none, and listed after the restart",
        ),
        pytest.param(
            SEEN,
            reading(life=replace(NEXT, heir_of=frozenset({"1"}))),
            None,
            Proof.ABSENT,
            id="none, and the file survived",
        ),
        pytest.param(
            SEEN,
            reading(life=replace(NEXT, heir_of=frozenset({"1b"}))),
            None,
            Proof.UNPROVEN,
            id="none, and the file survived only a later restart",
        ),
        pytest.param(
            replace(SEEN, seen_in="1b"),
            reading(life=replace(NEXT, heir_of=frozenset({"1b"}))),
            None,
            Proof.ABSENT,
            id="none, and listed since the file survives",
        ),
        pytest.param(
            replace(SEEN, seen_in="2"),
            reading(life=replace(NEXT, since=NOW - SETTLE_S + 1)),
            None,
            Proof.UNPROVEN,
            id="none, right after a restart",
        ),
        pytest.param(
            SEEN, reading(life=KubeletLife("2", NOW), gone="p"), None, Proof.ABSENT, id="none, and the pod is gone"
        ),
        pytest.param(
            SEEN, reading(life=KubeletLife("2", NOW), gone="q"), None, Proof.UNPROVEN, id="another pod is gone"
        ),
    ],
)
def test_finding(use: Use, said: Reading, wanted: list[DeviceId] | None, finding: Proof) -> None:
    assert find(use, said, wanted) is finding


TAKEN = replace(SEEN, is_overtaken=True)
NAMELESS = replace(USE, is_overtaken=True)
OTHERS = (PodUid("q"), ContainerName("app"))


@pytest.mark.parametrize(
    ("use", "holder", "life", "finding"),
    [
        pytest.param(TAKEN, OTHERS, LIFE, Proof.ABSENT, id="only-others-have-it"),
        pytest.param(TAKEN, OTHERS, NEXT, Proof.UNPROVEN, id="only-others-after-a-restart"),
        pytest.param(TAKEN, HOLDER, NEXT, Proof.LISTED, id="its-own-pod-has-it"),
        pytest.param(NAMELESS, OTHERS, NEXT, Proof.LISTED, id="which-pod-is-unknown"),
        pytest.param(NAMELESS, None, LIFE, Proof.ABSENT, id="nobody-has-it"),
    ],
)
def test_overtaken_use_is_told_from_those_that_came_after_it(
    use: Use, holder: tuple[PodUid, ContainerName] | None, life: KubeletLife, finding: Proof
) -> None:
    said = Reading(NOW, life, {} if holder is None else {A: frozenset({holder})})
    assert find(use, said, [A]) is finding
    learned = after(use, said)
    assert (learned.pod, learned.owners) == (use.pod, use.owners)
    if finding is Proof.LISTED:
        assert learned.seen_in == (life.id if use.pod else use.seen_in)


def test_over_after_two_absences_in_a_row() -> None:
    once = after(SEEN, reading())
    assert not is_over(once)
    assert is_over(after(once, reading()))
    assert not is_over(after(after(once, reading(A)), reading()))


def test_never_listed_waits() -> None:
    early = reading(at=USE.since + GRACE_S - 1)
    assert after(USE, early).absences == 0
    assert after(USE, reading()).absences == 1


def test_listed_tells_the_owner_and_keeps_its_name() -> None:
    seen = after(USE, reading(A))
    assert seen.owners == (Owner(uid=HOLDER[0], container=HOLDER[1]),)
    named = replace(seen, owners=(Owner(namespace="n", pod="gopher", uid=HOLDER[0]),))
    assert after(named, reading(A)).owners == named.owners


def test_stops_have_keys_of_their_own() -> None:
    first = USE.stop_of([A], Origin.SYNTHESISED)
    assert first.units == (A,)
    assert first.key == USE.stop_of([A], Origin.SYNTHESISED).key
    assert first.key != replace(USE, stops=1).stop_of([A], Origin.SYNTHESISED).key


def test_ledger_knows_one_use_for_each_unit() -> None:
    ledger = UseIndex([USE])
    assert ledger.of_units([B, DeviceId("c"), A]) == [USE]
    with pytest.raises(ValueError, match="overlaps"):
        ledger.put(replace(USE, key=AssignmentKey("other"), units={A: A}))
    taken = replace(USE, key=AssignmentKey("taken"), is_overtaken=True)
    ledger.put(taken)
    assert ledger.of_units([A]) == [USE]
    ledger.remove(taken.key)
    assert ledger.of_units([A]) == [USE]
    left = USE.without([A])
    assert left is not None
    ledger.put(left)
    assert ledger.of_units([A]) == []
    ledger.remove(USE.key)
    ledger.remove(USE.key)
    assert len(ledger) == 0
