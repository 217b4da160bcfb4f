"""The chain of admission handlers, and what becomes of the device manager's errors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from plugbay.errors import AdmissionError, ExpiredResource, InsufficientDevices, TopologyMisaligned
from plugbay.ops.changes import Changes
from plugbay.pods.admission import AdmissionChain, admission_chain
from plugbay.pods.lifecycle import PodStep
from plugbay.pods.record import PodRecord, Rejection, new_record
from plugbay.testing.fake_node import FakeDevices
from plugbay.testing.pod_values import pod

GOPHER = "example.com/gopher"
NEW = new_record(pod(), created_at=datetime(2026, 1, 1, tzinfo=UTC)).after(PodStep.BIND)
ADMITTED_BEFORE = NEW.after(PodStep.ADMIT)
FULL = Rejection("OutOfcpu", "Node didn't have enough resource: cpu, requested: 1, used: 0, capacity: 0")
GONE = Rejection(f"OutOf{GOPHER}", f"Node didn't have enough resource: {GOPHER}, requested: 1, used: 0, capacity: 0")


def unexpected(text: str) -> Rejection:
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {text}, which is unexpected")


class Asked:
    """A handler that says what it is told to, and writes down who was asked."""

    def __init__(self, name: str, asked: list[str], rejection: Rejection | None = None) -> None:
        self._name = name
        self._asked = asked
        self._rejection = rejection

    async def admit(self, record: PodRecord) -> Rejection | None:
        self._asked.append(self._name)
        return self._rejection


async def test_first_rejection_ends_the_chain() -> None:
    asked: list[str] = []
    chain = AdmissionChain([Asked("one", asked), Asked("two", asked, FULL), Asked("three", asked)])
    assert await chain.admit(NEW) == FULL
    assert asked == ["one", "two"]


async def test_pod_nobody_rejects_is_admitted() -> None:
    asked: list[str] = []
    chain = AdmissionChain([Asked("one", asked), Asked("two", asked)])
    assert await chain.admit(NEW) is None
    assert asked == ["one", "two"]


@pytest.mark.parametrize(
    ("refusal", "misfit", "record", "expected"),
    [
        pytest.param(None, FULL, NEW, FULL, id="node-is-full"),
        pytest.param(None, FULL, ADMITTED_BEFORE, None, id="who-runs-is-not-counted-again"),
        pytest.param(
            InsufficientDevices(GOPHER, 2, 1),
            FULL,
            NEW,
            unexpected(f"requested number of devices unavailable for {GOPHER}. Requested: 2, Available: 1"),
            id="devices-come-before-the-node",
        ),
        pytest.param(
            TopologyMisaligned(),
            None,
            NEW,
            Rejection("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
            id="topology",
        ),
        pytest.param(ExpiredResource(GOPHER), GONE, NEW, GONE, id="forgotten-resource"),
        *(
            pytest.param(
                ExpiredResource(GOPHER),
                misfit,
                record,
                unexpected(f"cannot allocate unregistered device {GOPHER}"),
                id=f"forgotten-resource-never-passes-{number}",
            )
            for number, (misfit, record) in enumerate([(None, NEW), (GONE, ADMITTED_BEFORE)])
        ),
    ],
)
async def test_rejections_are_the_kubelets(
    refusal: AdmissionError | None,
    misfit: Rejection | None,
    record: PodRecord,
    expected: Rejection | None,
) -> None:
    devices = FakeDevices(Changes())
    devices.refusal = refusal
    chain = admission_chain(devices, lambda _: misfit, advertised=frozenset, others=())
    assert await chain.admit(record) == expected
