import re
from dataclasses import replace

import pytest

from plugbay.errors import ImmutablePod, InvalidManifest
from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults
from plugbay.manifest.update import updated
from plugbay.model.ids import PodUid
from plugbay.model.owners import OwnerReference
from plugbay.model.pods import EmptyDir, EnvVar, Pod, RestartPolicy, Volume
from plugbay.testing.pod_values import container, pod

THERE = replace(pod(node_name="n1"), uid=PodUid("u"), labels={"a": "1"})


def test_an_equal_pod_changes_nothing() -> None:
    assert updated(THERE, replace(pod(), labels={"a": "1"})) == THERE


def test_labels_and_annotations_are_replaced() -> None:
    after = updated(THERE, replace(pod(), labels={"b": "2"}, annotations={"note": "x"}))
    assert (after.labels, after.annotations) == ({"b": "2"}, {"note": "x"})
    assert (after.uid, after.spec) == ("u", THERE.spec)


def test_a_pod_that_names_the_defaults_is_not_another_one() -> None:
    explicit = pod_from_v1(with_pod_defaults(pod_to_v1(pod())))
    assert explicit.spec != pod().spec
    assert updated(THERE, replace(explicit, labels={"a": "1"})) == THERE
    assert updated(replace(explicit, labels={}), replace(pod(), labels={"a": "1"})).spec == explicit.spec


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        (
            pod(container("c", gophers=1)),
            ["spec.containers[0].resources.limits", "spec.containers[0].resources.requests"],
        ),
        (pod(container("c", env=(EnvVar("A", "1"),))), ["spec.containers[0].env"]),
        (pod(container("c"), container("d")), ["spec.containers"]),
        (pod(container("d")), ["spec.containers[0].name"]),
        (pod(node_name="n2"), ["spec.nodeName"]),
        (
            pod(policy=RestartPolicy.NEVER, volumes=(Volume("v", EmptyDir()),)),
            ["spec.restartPolicy", "spec.volumes"],
        ),
        (replace(pod(), unused={("spec", "hostIPC"): True}), ["spec.hostIPC"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_everything_else_is_refused_by_name(wanted: Pod, fields: list[str]) -> None:
    with pytest.raises(ImmutablePod) as caught:
        updated(THERE, wanted)
    assert sorted(caught.value.fields) == fields
    assert str(caught.value) == (
        f'Pod "p" is invalid: {", ".join(caught.value.fields)}: Forbidden: pod updates may not change fields other '
        "than metadata.labels, annotations, ownerReferences and finalizers; delete the pod first"
    )


def test_owners_and_finalizers_change() -> None:
    wanted = replace(pod(), owners=(OwnerReference("apps/v1", "ReplicaSet", "r", "u", is_controller=True),))
    wanted = replace(wanted, finalizers=("example.com/kept",))
    after = updated(THERE, wanted)
    assert (after.owners, after.finalizers) == (wanted.owners, wanted.finalizers)
    assert pod_from_v1(pod_to_v1(after)) == after


def test_references_to_nothing_and_two_controllers_are_refused() -> None:
    two = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": n, "uid": n, "controller": True} for n in "ab"]
    for owners, problem in (
        ([{"kind": "ReplicaSet"}], "metadata.ownerReferences[0].apiVersion: Required value"),
        (two, 'Only one reference can have Controller set to true. Found "true" in references for a and b'),
    ):
        manifest = pod_to_v1(pod()) | {"metadata": {"name": "p", "ownerReferences": owners}}
        with pytest.raises(InvalidManifest, match=re.escape(problem)):
            pod_from_v1(manifest)
