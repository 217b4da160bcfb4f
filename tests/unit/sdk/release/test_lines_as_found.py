"""What is in use by the journal of a process that has ended."""

from __future__ import annotations

import pytest

from plugbay.model.assignments import AssignmentKey, Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.ledger.lines import Content, Header, as_found
from plugbay.sdk.release.uses import KubeletLife, Use, UsePhase

GOPHER = ResourceName("example.com/gopher")
LIFE = KubeletLife("1", 0.0)


def use(phase: UsePhase, origin: Origin | None = None) -> Use:
    return Use(
        key=AssignmentKey(phase.value),
        resource=GOPHER,
        units={DeviceId(phase.value): DeviceId(phase.value)},
        since=0.0,
        life="1",
        phase=phase,
        origin=origin,
    )


OPEN, ALLOCATING, RELEASING = use(UsePhase.OPEN), use(UsePhase.ALLOCATING), use(UsePhase.RELEASING, Origin.KUBELET)


def content(boot: str | None) -> Content:
    return Content(None if boot is None else Header(boot, GOPHER), LIFE, (OPEN, ALLOCATING, RELEASING), ())


@pytest.mark.parametrize("boot", ["now", None])
def test_only_what_was_never_answered_is_over(boot: str | None) -> None:
    found = as_found(content(boot), "now", ())
    assert found.life == LIFE
    assert [(each.phase, each.origin) for each in found.uses] == [
        (UsePhase.OPEN, None),
        (UsePhase.RELEASING, Origin.SYNTHESISED),
        (UsePhase.RELEASING, Origin.KUBELET),
    ]


def test_call_of_the_living_goes_on() -> None:
    assert as_found(content("now"), "now", {ALLOCATING.key}).uses == (OPEN, ALLOCATING, RELEASING)


def test_all_is_over_after_a_reboot() -> None:
    found = as_found(content("before"), "now", {ALLOCATING.key})
    assert found.life is None
    assert {each.phase for each in found.uses} == {UsePhase.RELEASING}
    assert [each.origin for each in found.uses] == [Origin.SYNTHESISED, Origin.SYNTHESISED, Origin.KUBELET]
