import re
from dataclasses import replace
from typing import Any

import pytest

from plugbay.errors import ImmutablePod, InvalidManifest
from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults
from plugbay.manifest.update import updated
from plugbay.model.ids import PodUid
from plugbay.model.images import PullPolicy
from plugbay.model.owners import OwnerReference
from plugbay.model.pods import EmptyDir, EnvVar, Pod, RestartPolicy, Volume
from plugbay.model.requests import ContainerKind
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


def test_a_pod_that_has_empty_mappings_is_not_another_one() -> None:
    """An earlier version did not store them, and the manifest of such a pod may be applied again."""
    empty = pod_to_v1(pod())
    spec: Any = empty["spec"]
    spec["affinity"] = spec["containers"][0]["securityContext"] = spec["containers"][0]["lifecycle"] = {}
    explicit = pod_from_v1(empty)
    assert explicit != pod()
    assert updated(THERE, replace(explicit, labels={"a": "1"})) == THERE
    assert updated(explicit, replace(pod(), labels={"a": "1"})).unused == explicit.unused


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
        "than metadata.labels, annotations, ownerReferences and finalizers, images of containers, "
        "spec.activeDeadlineSeconds (it may be set and come nearer) and spec.tolerations (some may be added); "
        "delete the pod first"
    )


def test_images_change_and_how_they_are_pulled_stays() -> None:
    there = replace(pod(container("i", ContainerKind.INIT), container("c")), uid=PodUid("u"))
    wanted = replace(
        there,
        spec=replace(
            there.spec,
            containers=(replace(container("c"), image="j:1"),),
            init_containers=(replace(container("i", ContainerKind.INIT), image="k:1"),),
        ),
    )
    after = updated(there, wanted)
    assert [(each.name, each.image, each.pull_policy) for each in after.spec.all_containers] == [
        ("i", "k:1", PullPolicy.ALWAYS),
        ("c", "j:1", PullPolicy.ALWAYS),
    ]
    assert updated(after, wanted) == after


def test_a_container_keeps_having_an_image() -> None:
    bare = replace(pod(replace(container("c"), image="")), uid=PodUid("u"))
    for there, wanted in ((THERE, bare), (bare, pod())):
        with pytest.raises(ImmutablePod) as caught:
            updated(there, wanted)
        assert "spec.containers[0].image" in caught.value.fields


@pytest.mark.parametrize(
    ("before", "wanted", "may"),
    [(None, 9, True), (9, 8, True), (9, 9, True), (9, 10, False), (9, None, False)],
)
def test_a_deadline_is_set_and_comes_nearer(before: int | None, wanted: int | None, may: bool) -> None:
    there = replace(pod(active_deadline_s=before), uid=PodUid("u"))
    if may:
        assert updated(there, pod(active_deadline_s=wanted)).spec.active_deadline_s == wanted
        return
    with pytest.raises(ImmutablePod, match=r"spec\.activeDeadlineSeconds"):
        updated(there, pod(active_deadline_s=wanted))


def test_a_specification_that_comes_from_elsewhere_is_kept() -> None:
    with pytest.raises(ImmutablePod, match=r"spec\.containers\[0\]\.image: Forbidden"):
        updated(THERE, pod(replace(container("c"), image="j:1")), keeps_spec=True)
    assert updated(THERE, replace(pod(), labels={"b": "2"}), keeps_spec=True).labels == {"b": "2"}


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
