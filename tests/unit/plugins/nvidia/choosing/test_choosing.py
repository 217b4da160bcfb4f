"""GetPreferredAllocation beside what the reference was seen to answer; scenarios of spec section 10 by number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import AllocationError
from plugbay.plugins.nvidia.choosing import SharedChoice, aligned, distributed, packed, preferred, shared_choice
from plugbay.plugins.nvidia.choosing.scores import pair_scores
from plugbay.plugins.nvidia.survey import GpuUuid, LinkMatrix, P2PLevel

GOLDEN: Final = Path(__file__).parents[4] / "golden/gpu-topology"
MACHINES: Final = sorted(path.stem for path in GOLDEN.glob("*gpu*.json"))
Ask = tuple[Sequence[int], Sequence[int], int]


def golden(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return read


def links_of(levels: Sequence[Sequence[int | None]], nvlinks: Sequence[Sequence[int]]) -> LinkMatrix:
    return LinkMatrix(
        tuple(GpuUuid(f"GPU-{index}") for index in range(len(nvlinks))),
        tuple(tuple(None if level is None else P2PLevel(level) for level in row) for row in levels),
        tuple(map(tuple, nvlinks)),
    )


def machine(name: str) -> LinkMatrix:
    read = golden(name)
    return links_of(read["nvml_topology_level"], read["nvlink_count"])


def gpus(indices: Sequence[int]) -> list[str]:
    return [f"GPU-{index}" for index in indices]


def chosen(links: LinkMatrix, ask: Ask) -> list[int]:
    available, required, size = ask
    return [int(uuid.removeprefix("GPU-")) for uuid in aligned(links, gpus(available), gpus(required), size)]


@pytest.mark.parametrize("name", MACHINES)
def test_pairs_score_as_in_the_golden_files(name: str) -> None:
    links = machine(name)
    assert [list(row) for row in pair_scores(links, links.uuids)] == golden(name)["pair_score"]


@pytest.mark.parametrize("name", MACHINES)
def test_scenarios_71_72_73_every_observed_answer_is_given_in_its_order(name: str) -> None:
    read, links = golden(name), machine(name)
    mended = [(*row[:3], row[-1]) for row in read.get("observed_upstream_defect", [])]
    wrong = [row for row in (*read["observed"], *mended) if chosen(links, (row[0], row[1], row[2])) != row[3]]
    assert wrong == []


def policy_cases() -> Iterator[tuple[str, Ask, list[int]]]:
    """Scenarios 64 to 68."""
    for name in MACHINES:
        for available, required, size, expected, _ in golden(name).get("policy_cases", []):
            yield name, (available, required, size), expected


@pytest.mark.parametrize(("name", "ask", "expected"), list(policy_cases()))
def test_scenarios_64_to_68_policy_cases(name: str, ask: Ask, expected: list[int]) -> None:
    assert sorted(chosen(machine(name), ask)) == expected


@pytest.mark.parametrize("name", [name for name in MACHINES if "sequential_allocation" in golden(name)])
def test_scenario_69_sequences_of_requests(name: str) -> None:
    links = machine(name)
    for sequence in golden(name)["sequential_allocation"]:
        free = list(range(len(links.uuids)))
        for size, expected in sequence:
            got = chosen(links, (free, [], size))
            assert sorted(got) == expected
            free = [index for index in free if index not in got]


def defects() -> Iterator[tuple[LinkMatrix, Ask, list[int]]]:
    read = golden("reference-defects")
    uniform = machine(read["slice_aliasing"]["topology"])
    for available, required, size, _, intended in read["slice_aliasing"]["cases"]:
        yield uniform, (available, required, size), intended
    padded = read["padded_set_wins"]
    for available, required, size, _, intended in padded["cases"]:
        yield links_of(padded["nvml_topology_level"], padded["nvlink_count"]), (available, required, size), intended
    one_sided = links_of([[None, 50], [50, None]], [[0, 4], [0, 0]])
    for available, required, size, _, intended in read["one_sided_nvlink"]["cases"]:
        yield one_sided, (available, required, size), intended
    uneven = links_of([[None, 50, 50], [50, None, 50], [50, 50, None]], [[0, 4, 0], [2, 0, 3], [0, 4, 0]])
    for available, required, size, outcome in read["one_sided_nvlink_count"]["cases"]:
        yield uneven, (available, required, size), outcome
    row = (None, 50, 50)
    without_the_lost = links_of([row, (50, None, 50), (50, 50, None)], [[0] * 3] * 3)
    for available, required, size, _, intended in read["gpu_lost_elsewhere"]["cases"]:
        yield without_the_lost, (available, required, size), intended


@pytest.mark.parametrize(("links", "ask", "intended"), list(defects()))
def test_the_reference_s_defects_are_mended(links: LinkMatrix, ask: Ask, intended: list[int]) -> None:
    assert chosen(links, ask) == intended


@pytest.mark.parametrize(("name", "policies"), [("dgx1-volta-8gpu", "dgx1-volta"), ("dgx2-like-16gpu", "dgx2-volta")])
def test_answers_are_among_the_sets_that_were_once_listed_by_hand(name: str, policies: str) -> None:
    links = machine(name)
    for size, sets in golden("static-dgx-policies")[policies].items():
        assert sorted(chosen(links, (range(len(links.uuids)), [], int(size)))) in sets


def test_scenario_70_partitions_are_enumerated_in_the_order_of_the_reference() -> None:
    """Equal links: the first partition of each size wins, and of its groups the first."""
    links = four_equal_gpus()
    read = golden("enumeration")
    for devices, size, partitions in read["partitions"]:
        expected = partitions[0][0] if partitions else []
        assert chosen(links, (devices, [], size)) == expected


def four_equal_gpus() -> LinkMatrix:
    return links_of([[None if one == other else 50 for other in range(4)] for one in range(4)], [[0] * 4] * 4)


def test_a_repeated_id_counts_once() -> None:
    links = four_equal_gpus()
    uuids = list(links.uuids)
    assert aligned(links, [*uuids, *uuids[:2]], [], 2) == aligned(links, uuids, [], 2) == uuids[:2]


def test_requests_that_cannot_be_met_have_no_answer() -> None:
    links = machine("rtx8000-4gpu")
    assert [chosen(links, ([0, 1], [], size)) for size in (0, -1, 3)] == [[], [], []]


@pytest.mark.parametrize(("kind", "ask"), [("available", ([9], [], 1)), ("required", ([0], [9], 1))])
def test_unknown_gpus_are_refused_in_the_words_of_the_reference(kind: str, ask: Ask) -> None:
    with pytest.raises(AllocationError) as caught:
        chosen(machine("rtx8000-4gpu"), ask)
    assert str(caught.value) == f"unable to retrieve list of {kind} devices: no device with uuid: GPU-9"


def replicas(*counts: int) -> list[str]:
    return [f"GPU-{index}::{number}" for index, count in enumerate(counts) for number in range(count)]


def shares(choice: SharedChoice, listed: Sequence[str], available: Sequence[str], size: int) -> list[int]:
    """The numbers of chosen replicas of the physical devices, largest first."""
    picked = choice(listed, available, [], size)
    assert len(set(picked)) == size
    assert set(picked) <= set(available)
    return sorted(Counter(each.partition("::")[0] for each in picked).values(), reverse=True)


@pytest.mark.parametrize(
    ("scenario", "choice", "counts", "taken", "size", "expected"),
    [
        (51, distributed, (2, 2), ["GPU-1::0"], 2, [1, 1]),
        (52, distributed, (4, 4), [], 2, [1, 1]),
        (52, distributed, (4, 4), [], 4, [2, 2]),
        (53, distributed, (2, 2, 2), [], 3, [1, 1, 1]),
        (55, packed, (4, 4), [], 2, [2]),
        (55, packed, (4, 4), [], 4, [4]),
        (55, packed, (4, 4), [], 5, [4, 1]),
        (56, packed, (2, 2, 2), [], 3, [2, 1]),
        (61, packed, (3, 3), [], 4, [3, 1]),
    ],
)
def test_scenarios_51_to_61_shares_of_physical_devices(
    scenario: int, choice: SharedChoice, counts: tuple[int, ...], taken: list[str], size: int, expected: list[int]
) -> None:
    listed = replicas(*counts)
    assert shares(choice, listed, [each for each in listed if each not in taken], size) == expected, scenario


@pytest.mark.parametrize("choice", [distributed, packed])
def test_scenario_54_too_few_replicas(choice: SharedChoice) -> None:
    with pytest.raises(AllocationError, match=r"^not enough available devices to satisfy allocation$"):
        choice(replicas(2), replicas(2), [], 5)


def test_scenario_57_unknown_policies_mean_distributed() -> None:
    assert [shared_choice(name) for name in ("", "no-such-policy", "distributed", "packed")] == [
        distributed,
        distributed,
        distributed,
        packed,
    ]


def test_scenario_58_equal_allocated_counts_count_as_equal_whatever_the_totals() -> None:
    listed = replicas(8, 4)
    available = [*replicas(6), "GPU-1::0", "GPU-1::1"]
    for choice in (distributed, packed):
        assert choice(listed, available, [], 1) == ["GPU-0::0"]
        assert choice(listed, available[::-1], [], 1) == ["GPU-1::1"]


def test_scenario_59_whole_gpus_are_aligned_whatever_the_policy() -> None:
    links = machine("dgx1-volta-8gpu")
    listed = gpus(range(8))
    got = preferred(listed, gpus([0, 2, 4, 5]), [], 2, links=links, shared=packed)
    assert got == gpus([4, 5])


def test_scenario_60_mig_devices_and_replicas_are_not_aligned() -> None:
    links = machine("rtx8000-4gpu")
    mig = [f"MIG-{number}" for number in range(3)]
    assert preferred(mig, mig, [], 2, links=None, shared=distributed) == mig[:2]
    listed = replicas(2, 2, 2, 2)
    assert preferred(listed, listed, [], 2, links=links, shared=packed) == ["GPU-0::0", "GPU-0::1"]
    mixed = ["GPU-1", "GPU-0::0"]
    assert preferred(listed, mixed, [], 1, links=links, shared=packed) == ["GPU-0::0"]


def test_scenario_62_odd_requests_for_replicas() -> None:
    listed = replicas(2)
    assert distributed(listed, ["GPU-7::0", "GPU-0::1"], [], 1) == ["GPU-0::1"]
    assert distributed(listed, listed, [], 0) == []
    assert distributed(listed, listed, ["GPU-0::1", "GPU-0::0"], 1) == ["GPU-0::1", "GPU-0::0"]


def test_scenario_63_bare_uuids_of_replicated_gpus_are_aligned() -> None:
    links = machine("rtx8000-4gpu")
    listed = replicas(2, 2, 2, 2)
    assert preferred(listed, gpus([0, 1, 2, 3]), [], 2, links=links, shared=packed) == gpus([0, 3])


def test_required_replicas_come_first_and_count_as_allocated() -> None:
    listed = replicas(4, 4)
    assert distributed(listed, listed, ["GPU-0::2"], 2) == ["GPU-0::2", "GPU-1::0"]
    assert packed(listed, listed, ["GPU-1::2"], 2) == ["GPU-1::2", "GPU-1::0"]


@given(st.data())
def test_each_replica_is_the_least_or_most_allocated_one_when_it_is_chosen(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    listed = replicas(*counts)
    available = data.draw(st.lists(st.sampled_from(listed), unique=True))
    size = data.draw(st.integers(0, len(available)))
    for choice, best in ((distributed, min), (packed, max)):
        left = list(available)
        allocated = Counter(each.partition("::")[0] for each in listed if each not in available)
        for each in choice(listed, available, [], size):
            name = each.partition("::")[0]
            assert allocated[name] == best(allocated[other.partition("::")[0]] for other in left)
            allocated[name] += 1
            left.remove(each)
