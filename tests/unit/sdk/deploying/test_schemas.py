"""Manifests against the schemas of Kubernetes 1.36, which know every field and no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from plugbay import Capability, HostDirectory, Memory, Privileged, Variable
from plugbay.model.selectors import parse_selector
from plugbay.sdk.author.needs import NodeReader
from plugbay.sdk.deploying.chart_schema import V1_FIELDS, schema
from plugbay.sdk.deploying.chart_values import own_values
from plugbay.sdk.deploying.deployment import Deployment, Extra
from tests.unit.sdk.deploying.test_daemonset import deployment, objects

SCHEMAS: Final = Path(__file__).parents[3] / "golden/sdk/deploying/kubernetes-1.36-schemas.json"
OF_OTHERS: Final = {"PodMonitor"}
WHY: Final = "a reason"
EXTRAS: Final = frozenset(Extra)
DEPLOYMENTS: Final = {
    "least": deployment(),
    "most": deployment(
        HostDirectory("/dev", WHY),
        Capability("NET_ADMIN", WHY),
        Variable("LOG", "1", WHY),
        Memory(100, WHY),
        NodeReader(WHY),
        files={"plugins.yaml": "plugins: []\n", "a.py": "x"},
        node_selector={"a": "1"},
        affinity=(parse_selector("pool in (a,b),!old,gpus>3,big"),),
        runtime_class="nvidia",
        extras=EXTRAS,
    ),
    "privileged": deployment(Privileged(WHY), extras=EXTRAS),
}


def problems(each: Mapping[str, Any]) -> list[str]:
    """The faults of an object."""
    jsonschema = pytest.importorskip("jsonschema")
    known = json.loads(SCHEMAS.read_text())
    schema = {"$ref": f"#/$defs/{known['kinds'][each['kind']]}", "$defs": known["$defs"]}
    found = jsonschema.Draft202012Validator(schema).iter_errors(each)
    return [f"{error.json_path}: {error.message}" for error in found]


@pytest.mark.parametrize("made", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_objects_are_what_kubernetes_1_36_knows(made: Deployment) -> None:
    there = {each["kind"]: problems(each) for each in objects(made) if each["kind"] not in OF_OTHERS}
    assert {kind: found for kind, found in there.items() if found} == {}


def test_kinds_are_all_there() -> None:
    kinds = {each["kind"] for made in DEPLOYMENTS.values() for each in objects(made)}
    assert kinds - OF_OTHERS == json.loads(SCHEMAS.read_text())["kinds"].keys()


def test_unknown_fields_and_other_types_are_noticed() -> None:
    [daemon_set] = objects(deployment())
    spec = daemon_set["spec"]["template"]["spec"]
    spec["containers"][0]["readinessProb"] = {}
    spec["automountServiceAccountToken"] = "no"
    assert len(problems(daemon_set)) == 2


def refused(plugin: Mapping[str, Any], **values: Any) -> list[str]:
    """The faults that the chart's schema finds in values with this plugin."""
    jsonschema = pytest.importorskip("jsonschema")
    whole = {"image": {"repository": "r", "tag": "1"}, "plugins": {"p": {"targets": ["a:A"], **plugin}}, **values}
    return [error.json_path for error in jsonschema.Draft7Validator(json.loads(schema())).iter_errors(whole)]


@pytest.mark.parametrize(
    "plugin",
    [
        {"targets": []},
        {"targets": [""]},
        {"securityContext": {"privilged": True}},
        {"resources": {"limit": {}}},
        {"updateStrategy": {"rolingUpdate": {}}},
        {"affinity": {"nodeAfinity": {}}},
        {"env": [{"nam": "A"}]},
        {"tolerations": [{"keys": "a"}]},
        {"volumes": [{"name": "files", "hostPath": {"path": "/x"}}]},
        {"volumes": [{"name": "device-plugins", "hostPath": {"path": "/x"}}]},
        {"volumes": [{"hostPath": {"path": "/x"}}]},
        {"volumeMounts": [{"name": "a", "mountpath": "/x"}]},
        {"target": ["a:A"]},
    ],
    ids=str,
)
def test_values_of_no_use_are_refused(plugin: dict[str, Any]) -> None:
    [place] = refused(plugin)
    assert place.startswith("$.plugins.p")


def test_values_of_plugins_are_not_refused() -> None:
    for made in DEPLOYMENTS.values():
        values = yaml.safe_load(own_values(made))["plugins"]
        assert [refused(each) for each in values.values()] == [[]]
    assert refused({}, defaults={"securityContext": {"privilged": True}}) == ["$.defaults.securityContext"]


def test_schema_knows_the_fields_of_kubernetes() -> None:
    known = json.loads(SCHEMAS.read_text())["$defs"]
    for kind, fields in V1_FIELDS.items():
        [found] = [each for name, each in known.items() if name.rpartition(".")[2] == kind]
        assert sorted(found["properties"]) == sorted(fields), kind
