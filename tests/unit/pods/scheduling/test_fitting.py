"""Whether a pod can be bound to the one node, in the scheduler's order and words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.manifest import pod_from_v1
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.model.taints import Effect, Taint
from plugbay.pods.record import PodRecord, new_record
from plugbay.pods.scheduling.constraints import Site
from plugbay.pods.scheduling.fitting import (
    NO_AFFINITY,
    NO_COMPANY,
    NO_SPREAD_LABEL,
    NO_VICTIMS,
    UNEVEN,
    UNSCHEDULABLE,
    UNTOLERATED,
    UNWANTED_COMPANY,
    UNWELCOME,
    Misfit,
    Outlook,
    misfit,
    unavailable,
    unschedulable,
)
from plugbay.pods.scheduling.occupancy import Occupancy
from plugbay.pods.scheduling.predicates import NO_FREE_PORTS
from plugbay.pods.scheduling.victims import priority, victims

GOPHER: Final = "example.com/gopher"
ALLOCATABLE: Final = {"cpu": 2000, "memory": 1000, "pods": 3, GOPHER: 4}
HOST: Final = "kubernetes.io/hostname"
SITE: Final = Site("n1", {HOST: "n1", "zone": "a", "disk": "ssd", "cores": "8"})
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(
    name: str = "p", *, labels: dict[str, str] | None = None, limits: Any = None, ports: Any = (), **spec: Any
) -> Pod:
    container: dict[str, Any] = {"name": "c", "resources": {"limits": limits or {}}, "ports": list(ports)}
    metadata = {"name": name, "uid": name, "labels": labels or {}, "namespace": spec.pop("namespace", "default")}
    return pod_from_v1(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    )


def view(*there: Pod, site: Site = SITE, **allocatable: int) -> Outlook:
    occupancy = Occupancy()
    for each in there:
        occupancy.add(each)
    return Outlook(site, occupancy, {**ALLOCATABLE, **allocatable})


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expressions(*each: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {
        "matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, values in each]
    }


def near(app: str, **term: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **term}]}}


def apart(app: str, **term: Any) -> dict[str, Any]:
    return {
        "podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **term}]}
    }


def spread(**fields: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [constraint | fields]


def reason(wanted: Pod, there: Outlook) -> str | None:
    found = misfit(wanted, there)
    return found.reasons[0] if found else None


# --- the node -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        pytest.param(node_affinity(expressions(("disk", "In", ["hdd", "ssd"]))), True, id="in"),
        pytest.param(node_affinity(expressions(("disk", "NotIn", ["ssd"]))), False, id="not-in"),
        pytest.param(node_affinity(expressions(("gpu", "NotIn", ["x"]))), True, id="not-in-of-a-missing-label"),
        pytest.param(node_affinity(expressions(("disk", "Exists", []), ("gpu", "DoesNotExist", []))), True, id="both"),
        pytest.param(node_affinity(expressions(("disk", "Exists", []), ("gpu", "Exists", []))), False, id="one-of-two"),
        pytest.param(node_affinity(expressions(("cores", "Gt", ["7"]))), True, id="greater"),
        pytest.param(node_affinity(expressions(("cores", "Gt", ["8"]))), False, id="not-greater"),
        pytest.param(node_affinity(expressions(("cores", "Lt", ["9"]))), True, id="less"),
        pytest.param(node_affinity(expressions(("cores", "Gt", ["-1"]))), True, id="greater-than-less-than-nothing"),
        pytest.param(node_affinity(expressions(("disk", "Gt", ["1"]))), False, id="not-a-number"),
        pytest.param(node_affinity({}), False, id="an-empty-term-fits-no-node"),
        pytest.param(node_affinity({}, expressions(("disk", "Exists", []))), True, id="one-of-the-terms"),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
            True,
            id="name",
        ),
        pytest.param(
            node_affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}),
            False,
            id="not-its-name",
        ),
    ],
)
def test_node_affinity(affinity: dict[str, Any], fits: bool) -> None:
    assert reason(pod(affinity=affinity), view()) == (None if fits else NO_AFFINITY)


def test_selector_and_affinity_both_have_to_hold() -> None:
    affinity = node_affinity(expressions(("disk", "Exists", [])))
    assert reason(pod(nodeSelector={"zone": "a"}, affinity=affinity), view()) is None
    assert reason(pod(nodeSelector={"zone": "b"}, affinity=affinity), view()) == NO_AFFINITY


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    cordoned = view(site=replace(SITE, is_cordoned=True))
    assert reason(pod(), cordoned) == UNSCHEDULABLE
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    assert reason(pod(tolerations=[toleration]), cordoned) is None


def test_taints_keep_pods_away() -> None:
    tainted = view(site=replace(SITE, taints=(Taint("gpu", Effect.NO_EXECUTE, "a"),)))
    assert reason(pod(), tainted) == UNTOLERATED
    assert reason(pod(tolerations=[{"key": "gpu", "value": "a"}]), tainted) is None
    assert reason(pod(), view(site=replace(SITE, taints=(Taint("x", Effect.PREFER_NO_SCHEDULE),)))) is None


# --- other pods -----------------------------------------------------------------------------------------------------

WEB: Final = pod("web", labels={"app": "web", "version": "1"})


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(pod(affinity=near("web")), None, id="near"),
        pytest.param(pod(affinity=near("db")), NO_COMPANY, id="nobody-near"),
        pytest.param(pod(affinity=near("db"), labels={"app": "db"}), None, id="first-of-its-group"),
        pytest.param(pod(affinity=near("web", topologyKey="rack")), NO_COMPANY, id="no-such-topology"),
        pytest.param(pod(affinity=near("web", topologyKey="zone")), None, id="another-topology"),
        pytest.param(pod(affinity=near("web"), namespace="lab"), NO_COMPANY, id="in-its-own-namespace"),
        pytest.param(pod(affinity=near("web", namespaces=["default"]), namespace="lab"), None, id="namespaces"),
        pytest.param(pod(affinity=near("web", namespaceSelector={}), namespace="lab"), None, id="all-namespaces"),
        pytest.param(
            pod(
                affinity=near("web", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}),
                namespace="lab",
            ),
            None,
            id="selected-namespace",
        ),
        pytest.param(
            pod(affinity=near("web", matchLabelKeys=["version"]), labels={"version": "2"}), NO_COMPANY, id="match-keys"
        ),
        pytest.param(
            pod(affinity=near("web", mismatchLabelKeys=["version"]), labels={"version": "2"}), None, id="mismatch-keys"
        ),
        pytest.param(pod(affinity=apart("web")), UNWANTED_COMPANY, id="apart"),
        pytest.param(pod(affinity=apart("db")), None, id="nobody-unwanted"),
        pytest.param(pod(affinity=apart("web", topologyKey="rack")), None, id="apart-in-no-such-topology"),
        pytest.param(pod(affinity=apart("web"), namespace="lab"), None, id="apart-in-its-own-namespace"),
    ],
)
def test_pods_want_others_near_or_away(wanted: Pod, found: str | None) -> None:
    assert reason(wanted, view(WEB)) == found


def test_pods_that_are_there_keep_others_away() -> None:
    shy = pod("shy", affinity=apart("web"))
    assert reason(WEB, view(shy)) == UNWELCOME
    assert reason(pod(), view(shy)) is None
    assert reason(replace(WEB, namespace="lab"), view(shy)) is None


def test_one_node_spreads_pods_over_one_domain() -> None:
    there = view(WEB, pod("web2", labels={"app": "web"}))
    assert reason(pod(labels={"app": "web"}, topologySpreadConstraints=spread()), there) is None
    assert reason(pod(topologySpreadConstraints=spread(topologyKey="rack")), there) == NO_SPREAD_LABEL
    anyway = spread(topologyKey="rack", whenUnsatisfiable="ScheduleAnyway")
    assert reason(pod(topologySpreadConstraints=anyway), there) is None


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"minDomains": 2}, UNEVEN),
        ({"minDomains": 2, "maxSkew": 2}, UNEVEN),
        ({"minDomains": 2, "maxSkew": 3}, None),
        ({"minDomains": 2, "maxSkew": 2, "matchLabelKeys": ["version"]}, None),
        ({"minDomains": 1}, None),
        ({"minDomains": 2, "labelSelector": {"matchLabels": {"app": "db"}}}, None),
    ],
    ids=str,
)
def test_more_domains_than_there_are_make_pods_uneven(fields: dict[str, Any], found: str | None) -> None:
    wanted = pod(labels={"app": "web", "version": "1"}, topologySpreadConstraints=spread(**fields))
    assert reason(wanted, view(WEB, pod("web2", labels={"app": "web"}))) == found


# --- order and words ------------------------------------------------------------------------------------------------


def test_the_first_thing_in_the_schedulers_order_is_told() -> None:
    there = pod("there", labels={"app": "web"}, ports=[{"containerPort": 80, "hostPort": 80}], limits={GOPHER: 4})
    port = [{"containerPort": 80, "hostPort": 80}]
    wanted = pod(nodeSelector={"disk": "hdd"}, affinity=apart("web"), ports=port, limits={GOPHER: 1})
    site = replace(SITE, taints=(Taint("gpu", Effect.NO_SCHEDULE),), is_cordoned=True)
    assert reason(wanted, view(there, site=site)) == UNSCHEDULABLE
    assert reason(wanted, view(there, site=replace(site, is_cordoned=False))) == UNTOLERATED
    assert reason(wanted, view(there)) == NO_AFFINITY
    wanted = replace(wanted, spec=replace(wanted.spec, placement=replace(wanted.spec.placement, node_selector={})))
    assert reason(wanted, view(there)) == NO_FREE_PORTS
    assert reason(replace(wanted, uid=PodUid("there")), view(there)) == f"Insufficient {GOPHER}"
    assert reason(pod(affinity=apart("web")), view(there)) == UNWANTED_COMPANY


def test_all_scarce_resources_are_told_and_whether_room_can_be_made() -> None:
    there = view(*(pod(f"p{number}", limits={"cpu": "600m"}) for number in range(3)))
    assert misfit(pod(limits={"cpu": 1, GOPHER: 1}), there) == Misfit(
        ("Insufficient cpu", "Too many pods"), may_help=True
    )
    assert misfit(pod(limits={"cpu": 3, GOPHER: 1}), there) == Misfit(("Insufficient cpu", "Too many pods"))
    assert misfit(pod(limits={"example.com/none": 1}), view()) == Misfit(("Insufficient example.com/none",))


def test_the_words_are_the_schedulers() -> None:
    assert unschedulable(Misfit(("Too many pods", "Insufficient cpu")), unavailable(NO_VICTIMS)) == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Too many pods. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


# --- victims --------------------------------------------------------------------------------------------------------


def record(there: Pod, *, age_s: int = 0) -> PodRecord:
    started = NOW - timedelta(seconds=age_s)
    return replace(new_record(there, created_at=started), started_at=started)


def chosen(wanted: Pod, there: list[PodRecord]) -> list[str]:
    found = victims(wanted, view(*(each.pod for each in there)), there, now=NOW)
    assert isinstance(found, list), found
    return [each.pod.name for each in found]


def test_the_least_important_and_the_youngest_go() -> None:
    there = [
        record(pod("low-old", priority=1, limits={GOPHER: 1}), age_s=9),
        record(pod("low-young", priority=1, limits={GOPHER: 1}), age_s=1),
        record(pod("high", priority=2, limits={GOPHER: 2}), age_s=1),
    ]
    assert chosen(pod(priority=5, limits={GOPHER: 1}), there) == ["low-young"]
    assert chosen(pod(priority=5, limits={GOPHER: 2}), there) == ["low-old", "low-young"]
    assert chosen(pod(priority=5, limits={GOPHER: 4}), there) == ["high", "low-old", "low-young"]


def test_pods_of_the_same_priority_stay() -> None:
    there = [record(pod("there", priority=5, limits={GOPHER: 4}))]
    found = victims(pod(priority=5, limits={GOPHER: 1}), view(there[0].pod), there, now=NOW)
    assert found == Misfit((NO_VICTIMS,))


def test_no_pod_goes_in_vain() -> None:
    there = [record(pod("low", limits={GOPHER: 1})), record(pod("high", priority=9, limits={GOPHER: 3}))]
    found = victims(pod(priority=5, limits={GOPHER: 2}), view(*(each.pod for each in there)), there, now=NOW)
    assert found == Misfit((f"Insufficient {GOPHER}",), may_help=True)


def test_a_pod_that_wants_to_be_alone_drives_away_those_that_it_does_not_want() -> None:
    there = [record(pod("web", labels={"app": "web"})), record(pod("db", labels={"app": "db"}))]
    assert chosen(pod(priority=5, affinity=apart("web")), there) == ["web"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 50)), max_size=6),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_each_victim_is_less_important_and_needed(
    pods: list[tuple[int, int, int]], importance: int, gophers: int
) -> None:
    there = [
        record(pod(f"p{index}", priority=level, limits={GOPHER: amount}), age_s=age)
        for index, (level, amount, age) in enumerate(pods)
    ]
    wanted = pod(priority=importance, limits={GOPHER: gophers})
    looked = view(*(each.pod for each in there), pods=10)
    found = victims(wanted, looked, there, now=NOW)
    lower = {each.uid for each in there if priority(each.pod) < importance}
    if isinstance(found, Misfit):
        assert not lower or misfit(wanted, replace(looked, without=lower)) is not None
        return
    gone = {each.uid for each in found}
    assert gone <= lower
    assert misfit(wanted, replace(looked, without=gone)) is None
    assert all(misfit(wanted, replace(looked, without=gone - {each})) is not None for each in gone)
