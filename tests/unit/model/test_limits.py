"""What requests and limits come to in a cgroup; the numbers are a kubelet's."""

from __future__ import annotations

import pytest

from plugbay.model.ids import ContainerName
from plugbay.model.limits import CgroupLimits, cgroup_limits, pod_limits
from plugbay.model.pods import Container
from plugbay.model.quantity import Quantity
from plugbay.model.requests import ContainerKind
from plugbay.model.security import Security, effective_security, non_root_violation

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


def parsed(amounts: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


@pytest.mark.parametrize(
    ("requests", "limits", "wanted"),
    [
        ({}, {}, CgroupLimits(2, 0, 0)),
        ({"cpu": "500m"}, {}, CgroupLimits(512, 0, 0)),
        ({}, {"cpu": "2"}, CgroupLimits(2048, 200_000, 0)),
        ({"cpu": "100m"}, {"cpu": "1", "memory": "64Mi"}, CgroupLimits(102, 100_000, 64 * 2**20)),
        ({"cpu": "0"}, {"cpu": "0"}, CgroupLimits(2, 0, 0)),
        ({"cpu": "1m"}, {"cpu": "1m"}, CgroupLimits(2, 1000, 0)),
        ({"cpu": "1000"}, {}, CgroupLimits(262_144, 0, 0)),
    ],
)
def test_requests_and_limits(requests: dict[str, str], limits: dict[str, str], wanted: CgroupLimits) -> None:
    assert cgroup_limits(parsed(requests), parsed(limits)) == wanted


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        pytest.param([], CgroupLimits(2, 0, 0), id="none"),
        pytest.param([(APP, {}, {"memory": "1"})], CgroupLimits(2, 0, 1), id="no-cpu"),
        pytest.param([(APP, {"cpu": "0"}, {"cpu": "1"})], CgroupLimits(2, 100_000, 0), id="asks-for-nothing"),
        pytest.param(
            [(APP, {"cpu": "1"}, {"cpu": "1"}), (APP, {"cpu": "500m"}, {"memory": "4"}), (APP, {}, {"memory": "3"})],
            CgroupLimits(1536, 100_000, 7),
            id="apps-add-up",
        ),
        pytest.param(
            [(INIT, {}, {"memory": "9"}), (SIDECAR, {}, {"memory": "2"}), (INIT, {}, {"memory": "8"}), (APP, {}, {})],
            CgroupLimits(2, 0, 10),
            id="init-beside-a-sidecar",
        ),
    ],
)
def test_a_pods_limits_are_those_of_its_most_demanding_moment(
    containers: list[tuple[ContainerKind, dict[str, str], dict[str, str]]], wanted: CgroupLimits
) -> None:
    made = [
        Container(ContainerName(str(index)), kind=kind, requests=parsed(requests), limits=parsed(limits))
        for index, (kind, requests, limits) in enumerate(containers)
    ]
    assert pod_limits(made) == wanted


def test_engine_is_told_only_of_limits_there_are() -> None:
    assert CgroupLimits().linux_resources() == {"cpu": {"shares": 2}}
    assert CgroupLimits(4, 5000, 6).linux_resources() == {
        "cpu": {"shares": 4, "quota": 5000, "period": 100_000},
        "memory": {"limit": 6},
    }
    assert CgroupLimits(memory_bytes=6).without_swap().linux_resources()["memory"] == {"limit": 6, "swap": 6}
    assert CgroupLimits().without_swap() == CgroupLimits()


def test_container_says_more_than_its_pod() -> None:
    pod = Security(run_as_user=1, run_as_group=2, run_as_non_root=True, supplemental_groups=(3,))
    assert effective_security(pod=pod, container=Security()) == pod
    own = Security(run_as_user=0, run_as_non_root=False, privileged=True)
    assert effective_security(pod=pod, container=own) == Security(
        run_as_user=0, run_as_group=2, run_as_non_root=False, supplemental_groups=(3,), privileged=True
    )


@pytest.mark.parametrize(
    ("security", "problem"),
    [
        (Security(), ""),
        (Security(run_as_non_root=True, run_as_user=1), ""),
        (Security(run_as_non_root=True, run_as_user=0), "container's runAsUser breaks non-root policy"),
        (Security(run_as_non_root=True), "container has runAsNonRoot and image will run as root"),
    ],
)
def test_who_must_not_be_root(security: Security, problem: str) -> None:
    assert non_root_violation(security) == problem


def test_restrictions_are_what_a_plain_process_cannot_have() -> None:
    assert (
        list(Security(privileged=True, added_capabilities=("ALL",), allow_privilege_escalation=True).restrictions())
        == []
    )
    assert list(Security(run_as_user=0, dropped_capabilities=("ALL",), read_only_root=True).restrictions()) == [
        "runAsUser",
        "capabilities.drop",
        "readOnlyRootFilesystem",
    ]
