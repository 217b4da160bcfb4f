"""How the answers of several sources become one view, and what remains visible when they contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import AllocatableResources, ContainerDevices, ContainerResources, PodResources
from plugbay.observe.evidence import CheckpointEntry, CheckpointEvidence, KnownPod, NodeEvidence
from plugbay.observe.exporting.series import node_metrics
from plugbay.observe.joining.node import join
from plugbay.observe.view import CheckpointFile, DeviceView, HealthWord, ObservedNode, Witness

GPU = "example.com/gpu"
NOW = datetime(2026, 11, 23, tzinfo=UTC)
FILE = CheckpointFile(path="/k/checkpoint", written=NOW)


def pod(name: str, containers: Mapping[str, Sequence[str]]) -> PodResources:
    return PodResources(
        "default",
        name,
        tuple(
            ContainerResources(
                ContainerName(container), tuple(ContainerDevices(ResourceName(GPU), (DeviceId(id),)) for id in ids)
            )
            for container, ids in containers.items()
        ),
    )


def entry(uid: str, container: str, *ids: str, paths: Sequence[str] = ()) -> CheckpointEntry:
    return CheckpointEntry(uid, container, GPU, {-1: ids}, tuple(paths))


def evidence(
    *entries: CheckpointEntry,
    pods: Sequence[PodResources] | None = None,
    known: Mapping[str, str] | None = None,
    healthy: Sequence[str] | None = None,
    registered: Sequence[str] = (),
    **more: Any,
) -> NodeEvidence:
    listed = (
        None if healthy is None else tuple(ContainerDevices(ResourceName(GPU), (DeviceId(each),)) for each in healthy)
    )
    return NodeEvidence(
        taken=NOW,
        root="/k",
        checkpoint=CheckpointEvidence(file=FILE, entries=entries, registered={GPU: tuple(registered)}),
        pods=None if pods is None else tuple(pods),
        allocatable=None if listed is None else AllocatableResources(listed),
        known_pods={
            uid: KnownPod(namespace="default" if name else "", name=name) for uid, name in (known or {}).items()
        },
        **more,
    )


def device(view: ObservedNode, id: str = "g0") -> DeviceView:
    return next(each for resource in view.resources for each in resource.devices if each.id == id)


def shown(view: ObservedNode, id: str = "g0") -> tuple[list[str], tuple[str, ...]]:
    found = device(view, id)
    return [str(holder) for holder in found.holders], found.disagreements


@pytest.mark.parametrize(
    ("found", "holders", "disagreements"),
    [
        pytest.param(evidence(entry("u1", "c", "g0")), ["u1/c"], (), id="the checkpoint alone"),
        pytest.param(
            evidence(entry("u1", "c", "g0"), known={"u1": "web"}), ["default/web/c"], (), id="a name from directories"
        ),
        pytest.param(
            evidence(entry("u1", "c", "g0"), pods=[pod("web", {"c": ["g0"]})]),
            ["default/web/c"],
            (),
            id="two sources are one holder",
        ),
        pytest.param(
            evidence(entry("u1", "init", "g0"), entry("u1", "c", "g0"), pods=[pod("web", {"c": ["g0"]})]),
            ["default/web/c", "default/web/init"],
            (),
            id="an init container before",
        ),
        pytest.param(
            evidence(entry("u1", "init", "g0"), known={"u1": "web"}, pods=[pod("web", {"c": []})]),
            ["default/web/init"],
            (),
            id="an init container alone",
        ),
        pytest.param(
            evidence(entry("u1", "c", "g0"), known={"u1": "old"}, pods=[]),
            [],
            ("the checkpoint still gives it to default/old/c",),
            id="a pod that has ended",
        ),
        pytest.param(
            evidence(entry("u1", "c", "g0"), known={"u1": "old"}, pods=[pod("new", {"c": ["g0"]})]),
            ["default/new/c"],
            ("the checkpoint still gives it to default/old/c",),
            id="PodResources wins",
        ),
        pytest.param(
            evidence(pods=[pod("web", {"c": ["g0"]})]),
            ["default/web/c"],
            ("the checkpoint does not say that it is held",),
            id="not in the checkpoint",
        ),
        pytest.param(
            evidence(entry("u1", "c", "g0"), pods=[]),
            ["u1/c"],
            ("only the checkpoint gives it to u1/c: an init container, or a pod that has ended",),
            id="a pod without a name",
        ),
        pytest.param(
            evidence(
                entry("u1", "c", "g0"),
                entry("u2", "c", "g1"),
                pods=[pod("a", {"c": ["g0"]})],
                only_pod=("default", "a"),
            ),
            ["default/a/c"],
            (),
            id="only one pod was asked for",
        ),
    ],
)
def test_holders(found: NodeEvidence, holders: list[str], disagreements: tuple[str, ...]) -> None:
    assert shown(join(found)) == (holders, disagreements)


def test_other_pods_are_known_by_the_checkpoint_when_only_one_was_asked_for() -> None:
    found = evidence(entry("u2", "c", "g1"), pods=[], known={"u2": "b"}, only_pod=("default", "a"))
    assert shown(join(found), "g1") == (["default/b/c"], ())


def node_status(id: str, holder: str = "", **more: Any) -> dict[str, Any]:
    held = {"namespace": "default", "pod": holder, "container": "c", "uid": f"uid-{holder}"} if holder else None
    told = {"id": id, "health": "Healthy", "reason": "", "numaNodes": [1], "holder": held, "releasing": False, **more}
    return {
        "rejections": {"UnexpectedAdmissionError": 2},
        "resources": [{"resourceName": GPU, "capacity": 3, "allocatable": 2, "endpoint": None, "devices": [told]}],
        "pods": [
            {
                "namespace": "default",
                "name": holder,
                "uid": f"uid-{holder}",
                "since": "2026-11-22T10:00:00Z",
                "requestedBy": "ReplicaSet/web",
            }
        ],
    }


def test_our_own_node_knows_best() -> None:
    found = evidence(pods=[pod("late", {"c": ["g0"]})], node=node_status("g0", "web"))
    view = join(found)
    assert shown(view) == (["default/web/c"], ("PodResources gives it to default/late/c",))
    (holder,) = device(view).holders
    assert (holder.requested_by, holder.since) == ("ReplicaSet/web", datetime(2026, 11, 22, 10, tzinfo=UTC))
    assert (view.resources[0].capacity, view.resources[0].allocatable) == (3, 2)
    assert view.rejections == {"UnexpectedAdmissionError": 2}
    assert device(view).numa_nodes == (1,)


def page(state: str, reason: str = "", **more: Any) -> dict[str, Any]:
    health = {"state": state, "reason": reason, "message": "m", "since": "2026-11-22T10:00:00Z"}
    return {
        "resources": [
            {
                "resourceName": GPU,
                "state": "streaming",
                "sockets": ["/k/device-plugins/gpu.sock"],
                "devices": [{"id": "g0", "deviceIDs": ["g0"], "health": health, **more}],
            }
        ]
    }


@pytest.mark.parametrize(
    ("found", "health", "disagreements"),
    [
        pytest.param(evidence(entry("u", "c", "g0")), "Unhealthy", (), id="not among the registered"),
        pytest.param(evidence(registered=["g0"]), "Healthy", (), id="registered in the checkpoint"),
        pytest.param(evidence(entry("u", "c", "g0"), registered=["g0"], healthy=[]), "Unhealthy", (), id="asked live"),
        pytest.param(
            evidence(entry("u", "c", "g0"), healthy=[], plugins=(page("Unhealthy", "XidError"),)),
            "Unhealthy: XidError",
            (),
            id="the plugin's reason",
        ),
        pytest.param(
            evidence(healthy=["g0"], plugins=(page("Unhealthy", "XidError"),)),
            "Healthy",
            ("its plugin says that it is Unhealthy: XidError",),
            id="the kubelet's word wins",
        ),
    ],
)
def test_health(found: NodeEvidence, health: str, disagreements: tuple[str, ...]) -> None:
    shown = device(join(found))
    assert (str(shown.health), shown.disagreements) == (health, disagreements)


def test_host_paths_come_from_the_plugin_or_from_an_answer_for_one_device() -> None:
    one = evidence(entry("u", "c", "g0", paths=["/dev/g0"]))
    assert device(join(one)).host_paths == ("/dev/g0",)
    two = evidence(entry("u", "c", "g0", "g1", paths=["/dev/g0", "/dev/g1"]))
    assert device(join(two)).host_paths == ()
    told = evidence(plugins=(page("Healthy", hostPaths=["/dev/x"], numaNodes=[1]),))
    assert (device(join(told)).host_paths, device(join(told)).numa_nodes) == (("/dev/x",), (1,))


def test_stopped_plugin_is_told_to_have_registered_when_it_did() -> None:
    moments = [
        {"time": "2026-11-22T10:00:00Z", "event": "registered", "socket": "gpu.sock"},
        {"time": "2026-11-22T12:00:00Z", "event": "its stream ended", "socket": "gpu.sock"},
    ]
    endpoint = {"state": "Stopped", "socket": "gpu.sock", "since": "2026-11-22T12:00:00Z"}
    status = {"resources": [{"resourceName": GPU, "endpoint": endpoint, "life": {"moments": moments}}]}
    view = join(evidence(node=status))
    (plugin,) = (resource.plugin for resource in view.resources)
    assert plugin is not None
    assert (plugin.state, plugin.since) == ("Stopped", datetime(2026, 11, 22, 12, tzinfo=UTC))
    assert plugin.registered == datetime(2026, 11, 22, 10, tzinfo=UTC)
    samples = {metric.name: list(metric.samples) for metric in node_metrics(view).metrics}
    told = samples["plugbay_node_plugin_registered_timestamp_seconds"]
    assert told == [({"resource_name": GPU}, plugin.registered.timestamp())]


@pytest.mark.parametrize("status", [{}, {"resources": 3}, {"resources": [{"devices": [{"id": 7, "holder": []}]}]}])
def test_pages_of_another_shape_are_read_as_empty(status: dict[str, Any]) -> None:
    view = join(evidence(node=status, plugins=(status,), registered=["g0"]))
    assert device(view).health.word is HealthWord.HEALTHY


IDS = st.sampled_from(["g0", "g1", "g2"])
CONTAINERS = st.sampled_from(["init", "c", "d"])
ENTRIES = st.lists(st.builds(entry, st.sampled_from(["u1", "u2", "u3"]), CONTAINERS, IDS), max_size=4)
PODS = st.lists(
    st.builds(pod, st.sampled_from(["a", "b"]), st.dictionaries(CONTAINERS, st.lists(IDS, max_size=2), max_size=2)),
    max_size=2,
    unique_by=lambda each: each.name,
)
NAMES = st.dictionaries(st.sampled_from(["u1", "u2", "u3"]), st.sampled_from(["", "a", "b", "gone"]))


@given(ENTRIES, st.none() | PODS, NAMES, st.none() | st.lists(IDS), st.randoms(use_true_random=False))
def test_nothing_that_a_source_claims_is_lost_whatever_the_order(
    entries: list[CheckpointEntry], pods: list[PodResources] | None, names: dict[str, str], healthy: Any, random: Any
) -> None:
    found = evidence(*entries, pods=pods, known=names, healthy=healthy)
    view = join(found)
    for each in entries:
        for ids in each.devices.values():
            for id in ids:
                seen = device(view, id)
                text = " ".join(seen.disagreements)
                assert any(holder.container == each.container for holder in seen.holders) or each.container in text
    for listed in pods or ():
        for container in listed.containers:
            for element in container.devices:
                holders = device(view, element.device_ids[0]).holders
                named = [
                    (holder.pod, holder.container) for holder in holders if Witness.POD_RESOURCES in holder.witnesses
                ]
                assert (listed.name, container.name) in named
    shuffled = random.sample(entries, len(entries))
    checkpoint = replace(found.checkpoint, entries=tuple(shuffled))
    pods_shuffled = None if pods is None else tuple(random.sample(pods, len(pods)))
    assert join(replace(found, checkpoint=checkpoint, pods=pods_shuffled)) == view
