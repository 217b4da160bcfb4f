"""What goes with a DaemonSet, and the forms in which all of it is written: the same objects in each."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugbay.errors import UsageError
from plugbay.model.selectors import parse_selector
from plugbay.ops.process import process_metrics
from plugbay.sdk.author.needs import NodeName, NodeReader, OnNodes
from plugbay.sdk.deploying.chart import chart
from plugbay.sdk.deploying.chart_values import default_values, plain, values_of
from plugbay.sdk.deploying.dashboard import PANELS, dashboard
from plugbay.sdk.deploying.deployment import Deployment, Extra, image_name
from plugbay.sdk.deploying.kustomize import kustomize_directory
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.deploying.objects import manifest
from plugbay.sdk.process.metrics import plugin_metrics
from tests.unit.sdk.deploying.test_daemonset import deployment, objects

SHA: str = f"sha256:{'0' * 64}"


def everything(**fields: Any) -> Deployment:
    return deployment(extras=frozenset(Extra), files={"plugins.yaml": "plugins: []\n", "a.py": "x"}, **fields)


def test_extras_are_there_when_asked_for() -> None:
    assert [each["kind"] for each in objects(deployment())] == ["DaemonSet"]
    found = {each["kind"]: each for each in objects(everything()) if each["kind"] != "ConfigMap"}
    assert list(found) == ["Namespace", "DaemonSet", "NetworkPolicy", "PodMonitor"]
    assert found["Namespace"]["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
    labels = found["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    [container] = found["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    policy, monitor = found["NetworkPolicy"]["spec"], found["PodMonitor"]["spec"]
    assert policy["podSelector"]["matchLabels"] == monitor["selector"]["matchLabels"] == labels
    assert ("egress" in policy, policy["policyTypes"]) == (False, ["Ingress", "Egress"])
    [port] = container["ports"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": port["containerPort"]}]}]
    assert [each["port"] for each in monitor["podMetricsEndpoints"]] == [port["name"]]


def test_labels_of_all_objects_are_short_enough_for_the_longest_name() -> None:
    made = objects(deployment(name="n" * 63, extras=frozenset(Extra)))
    labels = [value for each in made for value in each["metadata"]["labels"].values()]
    assert labels == ["privileged", *["n" * 63] * 4, "1"]


def test_right_to_read_nodes_is_of_one_deployment_in_the_cluster() -> None:
    places = (("a", "b-c"), ("a-b", "c"), ("a-b", "c-b"), ("a", "b-c-b"))
    of_cluster = [
        [(each["kind"], each["metadata"]["name"]) for each in objects(made) if "namespace" not in each["metadata"]]
        for made in (deployment(NodeReader("labels"), namespace=space, name=name) for space, name in places)
    ]
    assert len({each for those in of_cluster for each in those}) == 2 * len(places)


def test_right_to_read_nodes_is_there_when_needed() -> None:
    made = deployment(NodeReader("labels choose its config"), extras=frozenset({Extra.NETWORK_POLICY}))
    found = {each["kind"]: each for each in objects(made)}
    assert list(found) == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet", "NetworkPolicy"]
    account, role, bound = found["ServiceAccount"], found["ClusterRole"], found["ClusterRoleBinding"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch"]}]
    assert bound["roleRef"]["name"] == role["metadata"]["name"] == "plugbay:kube-system:card-plugin"
    [subject] = bound["subjects"]
    assert (subject["name"], subject["namespace"]) == (account["metadata"]["name"], account["metadata"]["namespace"])
    pod = found["DaemonSet"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("card-plugin", True)
    assert pod["containers"][0]["env"] == [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    ]
    assert [port["port"] for port in found["NetworkPolicy"]["spec"]["egress"][0]["ports"]] == [443, 6443]


def test_name_of_the_node_needs_no_right() -> None:
    [daemon_set] = objects(deployment(NodeName("its name chooses its config")))
    pod = daemon_set["spec"]["template"]["spec"]
    assert (pod["automountServiceAccountToken"], "serviceAccountName" in pod) == (False, False)
    assert [each["name"] for each in pod["containers"][0]["env"]] == ["NODE_NAME"]


def test_affinity_to_nodes_with_one_of_some_labels() -> None:
    terms = (parse_selector("pool in (b,a),!old"), parse_selector("gpus>3"))
    pod = objects(deployment(affinity=terms))[0]["spec"]["template"]["spec"]
    [(kind, wanted)] = pod["affinity"]["nodeAffinity"].items()
    assert kind == "requiredDuringSchedulingIgnoredDuringExecution"
    assert [each["matchExpressions"] for each in wanted["nodeSelectorTerms"]] == [
        [{"key": "pool", "operator": "In", "values": ["a", "b"]}, {"key": "old", "operator": "DoesNotExist"}],
        [{"key": "gpus", "operator": "Gt", "values": ["3"]}],
    ]


def test_affinity_that_plugins_declare_is_joined_with_that_of_an_operator() -> None:
    needs = (OnNodes("card=a", "they have cards"), OnNodes("card=b", "they have cards"))
    made = deployment(*needs, affinity=(parse_selector("!old"), parse_selector("big")))
    pod = objects(made)[0]["spec"]["template"]["spec"]
    [wanted] = pod["affinity"]["nodeAffinity"].values()
    keys = [[each["key"] for each in term["matchExpressions"]] for term in wanted["nodeSelectorTerms"]]
    assert keys == [["old", "card"], ["old", "card"], ["big", "card"], ["big", "card"]]
    assert "# They have cards; they have cards.\n" not in noted_yaml(manifest(made))
    assert "# They have cards.\n" in noted_yaml(manifest(made))
    assert "affinity" not in objects(deployment())[0]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plugbay", ("plugbay", "", "")),
        ("r.example:5000/a/b:1.0", ("r.example:5000/a/b", "1.0", "")),
        (f"r.example/a@{SHA}", ("r.example/a", "", SHA)),
        (f"r.example/a:1@{SHA}", ("r.example/a", "1", SHA)),
    ],
)
def test_name_of_an_image(text: str, parts: tuple[str, str, str]) -> None:
    name = image_name(text)
    assert (name.repository, name.tag, name.digest) == parts


@pytest.mark.parametrize("text", ["", ":1", "a b", "a/B", "a@sha256:1", "a:", "/a", "-a"])
def test_no_name_of_an_image(text: str) -> None:
    with pytest.raises(UsageError, match="is not the name of an image"):
        image_name(text)


# --- metrics of the dashboard ----------------------------------------------------------------------------------------

METRIC = re.compile(r"\b(?:plugbay|process)_\w+")
LABELS = re.compile(r"\b(\w+)=~")
SUFFIXES = ("_bucket", "_count", "_sum")


def test_metrics_of_the_dashboard_are_exported() -> None:
    of_process = process_metrics(Path("/proc/self"), started=datetime.now(UTC))
    exported = {each.name for each in (*plugin_metrics([]), *of_process)}
    text = json.dumps(json.loads(dashboard()))
    named = {re.sub(f"({'|'.join(SUFFIXES)})$", "", name) for name in METRIC.findall(text)}
    assert named - exported == set()
    assert len(named) >= 8
    shown = json.loads(dashboard())["panels"]
    assert [each["title"] for each in shown] == [each.title for each in PANELS]
    assert set(LABELS.findall(text)) <= {"resource_name", "state", "outcome"}


# --- kustomize -------------------------------------------------------------------------------------------------------


def test_kustomize_directory_has_the_same_objects() -> None:
    made = everything(image=f"r.example/a@{SHA}")
    files = dict(kustomize_directory(made))
    kustomization = yaml.safe_load(files.pop("kustomization.yaml"))
    assert kustomization["images"] == [{"name": "r.example/a", "newName": "r.example/a", "digest": SHA}]
    resources = [yaml.safe_load(files.pop(name)) for name in kustomization["resources"]]
    [generated] = kustomization["configMapGenerator"]
    assert kustomization["generatorOptions"]["disableNameSuffixHash"] is True
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": generated["name"],
            "namespace": kustomization["namespace"],
            "labels": kustomization["generatorOptions"]["labels"],
        },
        "data": {path.partition("/")[2]: files.pop(path) for path in generated["files"]},
    }
    assert files == {}
    assert by_name([config, *resources]) == by_name(objects(made))


def by_name(those: list[Any]) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in those}


# --- chart -----------------------------------------------------------------------------------------------------------


def test_values_of_a_chart_hold_what_differs() -> None:
    values = yaml.safe_load(values_of(everything(runtime_class="nvidia", image=f"r.example/a:1@{SHA}")))
    assert values["image"] == {"repository": "r.example/a", "tag": "1", "digest": SHA}
    assert values["plugins"] == {
        "card-plugin": {
            "targets": ["cards:Cards"],
            "runtimeClassName": "nvidia",
            "files": {"a.py": "x", "plugins.yaml": "plugins: []\n"},
        }
    }
    assert [name for name, value in values.items() if isinstance(value, dict) and value.get("enabled")] == [
        "podMonitor",
        "dashboard",
        "networkPolicy",
    ]
    of_manifest: Any = plain(manifest(deployment())[0])
    pod = of_manifest["spec"]["template"]["spec"]
    for field in ("priorityClassName", "tolerations"):
        assert values["defaults"][field] == pod[field]
    for field in ("resources", "securityContext"):
        assert values["defaults"][field] == pod["containers"][0][field]


def test_templates_of_a_chart_know_no_plugin() -> None:
    files = chart(default_values(), version="1.2.3")
    assert yaml.safe_load(files["Chart.yaml"])["appVersion"] == "1.2.3"
    assert yaml.safe_load(files["values.yaml"])["plugins"] == {}
    of_plugin = chart(values_of(everything()), version="1.2.3")
    assert {name for name in files if files[name] != of_plugin[name]} == {"values.yaml"}
