"""What stock kubelets say of pods, as it was recorded, and what `plugbay doctor` makes of it."""

from __future__ import annotations

import pytest

from plugbay.observe.doctor.catalogue import examine
from plugbay.observe.doctor.evidence.logs import happening_of_line
from plugbay.observe.doctor.evidence.values import (
    ContainerSight,
    DirectorySight,
    Examined,
    KubeletEvidence,
    PodSight,
)
from plugbay.observe.doctor.finding import DoctorFinding

HERE = DirectorySight("/var/lib/kubelet/device-plugins", is_there=True)
REFUSED = "Pod was rejected: Allocate failed due to {}, which is unexpected"


def found(*pods: PodSight) -> list[DoctorFinding]:
    """What is found about pods, and nothing else."""
    findings = examine(Examined(KubeletEvidence("/var/lib/kubelet"), HERE, HERE, pods=pods)).findings
    return [each for each in findings if each.check.id.startswith("PBD4")]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("no healthy devices present; cannot allocate unhealthy devices s56.example/r", "no device is healthy"),
        ("requested number of devices unavailable for s05.example/r. Requested: 4, Available: 2", "too few devices"),
        ("rpc error: code = Unavailable desc = error reading from server: EOF", "the plugin's Allocate failed"),
        ("no containers return in allocation response ", "the plugin's answer to Allocate was empty"),
        (
            "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Internal desc = no idea",
            "the plugin failed to choose devices",
        ),
        ("cannot allocate unregistered device s20.example/held", "no plugin has registered the resource"),
        (
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices s54.example/r",
            "the pod held devices before the kubelet restarted",
        ),
    ],
)
def test_a_rejection_is_explained(said: str, why: str) -> None:
    (finding,) = found(PodSight("u", "default", "p", "Failed", "UnexpectedAdmissionError", REFUSED.format(said)))
    assert finding.check.id == "PBD401"
    assert f"Pod default/p was refused by the kubelet: {why}" in finding.seen.what
    assert finding.seen.evidence == (f"the pod's status: UnexpectedAdmissionError: {said}",)
    assert finding.remedy != finding.check.remedy


@pytest.mark.parametrize(
    ("waiting", "message", "expected"),
    [
        (
            "CreateContainerConfigError",
            "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = not ready",
            "PBD406",
        ),
        (
            "CreateContainerConfigError",
            "no devices found allocated in local cache for pod u, container c, resource s43.example/prestart",
            "PBD406",
        ),
        (
            "CreateContainerError",
            "failed to create containerd container: CDI device injection failed: unresolvable CDI devices v.x/d=x",
            "PBD405",
        ),
    ],
)
def test_a_container_that_cannot_start_is_explained(waiting: str, message: str, expected: str) -> None:
    container = ContainerSight("c", waiting=waiting, message=message)
    assert [each.check.id for each in found(PodSight("u", "default", "p", "Pending", containers=(container,)))] == [
        expected
    ]


def test_a_pod_that_runs_or_is_gone_is_not_stuck() -> None:
    assert found(PodSight("u", "default", "p", "Running"), PodSight("v", "default", "q", "Succeeded")) == []


@pytest.mark.parametrize(
    ("line", "reason", "pod", "message"),
    [
        (
            'I1123 10:00:01.1 812 kubelet.go:2330] "Pod admission denied" podUID="u-1" pod="lab/train" '
            'reason="UnexpectedAdmissionError" message="Allocate failed due to no \\"luck\\", which is unexpected"',
            "UnexpectedAdmissionError",
            "lab/train",
            'Allocate failed due to no "luck", which is unexpected',
        ),
        (
            'I1123 10:00:01.1 812 event.go:291] Event(v1.ObjectReference{Kind:"Pod", Namespace:"lab", Name:"train", '
            """UID:"u-1", APIVersion:"v1"}): type: 'Warning' reason: 'OutOfcpu' Node didn't have enough resource""",
            "OutOfcpu",
            "lab/train",
            "Node didn't have enough resource",
        ),
    ],
)
def test_a_line_of_the_log_is_read(line: str, reason: str, pod: str, message: str) -> None:
    said = happening_of_line(line, "log")
    assert (said.reason, said.pod, said.uid, said.message) == (reason, pod, "u-1", message)
