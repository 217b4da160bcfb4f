from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.pods.scheduling.ledger import Commitments, demand

GOPHER = "example.com/gopher"


def container(name: str, kind: ContainerKind = ContainerKind.APP, **requests: str) -> Container:
    amounts = {GOPHER if key == "gopher" else key: Quantity.parse(value) for key, value in requests.items()}
    return Container(ContainerName(name), requests=amounts, limits=amounts, kind=kind)


def pod(*containers: Container) -> Pod:
    apps = tuple(each for each in containers if each.kind is ContainerKind.APP)
    inits = tuple(each for each in containers if each.kind is not ContainerKind.APP)
    return Pod("p", PodSpec(containers=apps, init_containers=inits), uid=PodUid("u"))


INIT, SIDECAR = ContainerKind.INIT, ContainerKind.SIDECAR


@pytest.mark.parametrize(
    ("containers", "gophers"),
    [
        pytest.param([container("a", gopher="1"), container("b", gopher="2")], 3, id="app containers add up"),
        pytest.param([container("i", INIT, gopher="3"), container("a", gopher="2")], 3, id="a greedy init counts"),
        pytest.param([container("i", INIT, gopher="1"), container("a", gopher="2")], 2, id="a modest init does not"),
        pytest.param(
            [container("i", INIT, gopher="2"), container("j", INIT, gopher="2"), container("a")],
            2,
            id="inits run one by one",
        ),
        pytest.param([container("s", SIDECAR, gopher="1"), container("a", gopher="2")], 3, id="sidecars run along"),
        pytest.param(
            [container("s", SIDECAR, gopher="1"), container("i", INIT, gopher="3"), container("a")],
            4,
            id="a sidecar runs beside the inits after it",
        ),
        pytest.param(
            [container("i", INIT, gopher="3"), container("s", SIDECAR, gopher="1"), container("a")],
            3,
            id="a sidecar does not run beside the inits before it",
        ),
    ],
)
def test_demand_is_that_of_the_most_demanding_moment(containers: list[Container], gophers: int) -> None:
    assert demand(pod(*containers))[GOPHER] == gophers


def test_cpu_is_counted_in_thousandths() -> None:
    assert demand(pod(container("a", cpu="1500m", memory="1Ki"))) == {"cpu": 1500, "memory": 1024, "pods": 1}


@pytest.mark.parametrize(
    ("needed", "lacking"),
    [
        pytest.param({GOPHER: 1}, [], id="fits"),
        pytest.param({GOPHER: 2}, [GOPHER], id="too few left"),
        pytest.param({"example.com/unknown": 1}, ["example.com/unknown"], id="nobody offers it"),
        pytest.param({"example.com/unknown": 0}, [], id="nothing of what nobody offers"),
        pytest.param({"memory": 11, "cpu": 2001, GOPHER: 1}, ["cpu", "memory"], id="several, sorted"),
    ],
)
def test_lacking_names_what_does_not_fit(needed: dict[str, int], lacking: list[str]) -> None:
    ledger = Commitments()
    ledger.add(PodUid("first"), Counter({GOPHER: 1}))
    assert ledger.lacking(needed, {GOPHER: 2, "cpu": 2000, "memory": 10}) == lacking


def test_a_pod_counted_twice_counts_once() -> None:
    ledger = Commitments()
    for _ in range(2):
        ledger.add(PodUid("u"), Counter({GOPHER: 2}))
    assert ledger.used_beside(())[GOPHER] == 2


amounts = st.dictionaries(st.sampled_from([GOPHER, "cpu", "memory"]), st.integers(0, 5))


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), amounts))))
def test_running_totals_equal_the_sum_of_what_is_there(steps: list[tuple[int, dict[str, int] | None]]) -> None:
    ledger, model = Commitments(), dict[int, Counter[str]]()
    for number, needed in steps:
        if needed is None:
            ledger.remove(PodUid(str(number)))
            model.pop(number, None)
        else:
            ledger.add(PodUid(str(number)), Counter(needed))
            model[number] = Counter(needed)
    assert {name: count for name, count in ledger.used_beside(()).items() if count} == sum(
        (+each for each in model.values()), Counter()
    )
