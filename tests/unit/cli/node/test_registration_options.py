"""Labels and taints of the command line, in a kubelet's syntax."""

from __future__ import annotations

import argparse

import pytest

from plugbay.cli.node.registration_options import registration
from plugbay.errors import UsageError
from plugbay.model.nodes import NO_INPUT, NodeInput
from plugbay.model.taints import Effect, Taint


def given(labels: str = "", taints: str = "") -> NodeInput:
    return registration(argparse.Namespace(node_labels=labels, register_with_taints=taints))


def test_labels_and_taints_are_read() -> None:
    assert given() == NO_INPUT
    found = given(
        "disk=ssd,empty=,node.kubernetes.io/pool=a,topology.kubernetes.io/zone=z", "a=b:NoSchedule,c:NoExecute"
    )
    assert found.labels == {
        "disk": "ssd",
        "empty": "",
        "node.kubernetes.io/pool": "a",
        "topology.kubernetes.io/zone": "z",
    }
    assert found.taints == (Taint("a", Effect.NO_SCHEDULE, "b"), Taint("c", Effect.NO_EXECUTE))


@pytest.mark.parametrize(
    ("labels", "taints", "problem"),
    [
        ("disk=not a value", "", "is not a label such as disk=ssd"),
        ("-disk=x", "", "is not a label such as disk=ssd"),
        ("node-role.kubernetes.io/worker=", "", "cannot give itself the label 'node-role.kubernetes.io/worker'"),
        ("k8s.io/a=b", "", "cannot give itself the label 'k8s.io/a'"),
        ("", "a=b", "is not a taint such as dedicated=gpu:NoSchedule"),
        ("", "a:Sideways", "with one of NoSchedule, PreferNoSchedule, NoExecute"),
        ("", ":NoSchedule", "is not a taint"),
        ("", "a=x y:NoSchedule", "'x y' is not the value of a taint"),
        ("", "a=b:NoSchedule,a=c:NoSchedule", "duplicated taints with the same key and effect: a=c:NoSchedule"),
    ],
)
def test_others_are_refused(labels: str, taints: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        given(labels, taints)
    assert problem in str(caught.value)
