"""The defaults of pods and templates, as an API server of Kubernetes 1.36 fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.manifest.defaults import with_pod_defaults, with_spec_defaults

CONTAINER = {
    "name": "c",
    "image": "busybox",
    "imagePullPolicy": "Always",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
SPEC = {
    "containers": [CONTAINER],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}


def test_a_small_pod_gets_what_every_pod_has() -> None:
    small: dict[str, Any] = {"containers": [{"name": "c", "image": "busybox"}]}
    assert with_spec_defaults(small) == SPEC
    assert with_pod_defaults({"spec": small}) == {"spec": SPEC | {"enableServiceLinks": True}}
    assert small == {"containers": [{"name": "c", "image": "busybox"}]}, "it stays as it was"


def test_what_is_given_stays() -> None:
    given = {
        "containers": [CONTAINER | {"imagePullPolicy": "Never", "terminationMessagePath": "/x"}],
        "dnsPolicy": "Default",
        "restartPolicy": "Never",
        "schedulerName": "mine",
        "securityContext": {"runAsUser": 0},
        "terminationGracePeriodSeconds": 0,
        "enableServiceLinks": False,
    }
    assert with_pod_defaults({"spec": given}) == {"spec": given}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/busybox", "Always"),
        (f"busybox@sha256:{'0' * 64}", "IfNotPresent"),
    ],
)
def test_images_are_pulled_each_time_if_their_tag_moves(image: str, policy: str) -> None:
    [container] = _containers({"containers": [{"name": "c", "image": image}]})
    assert container["imagePullPolicy"] == policy


def test_a_container_without_an_image_is_not_pulled() -> None:
    assert "imagePullPolicy" not in _containers({"containers": [{"name": "c"}]})[0]


def test_inner_values_are_filled_in() -> None:
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    filled_field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    probe = {"httpGet": {"port": 80}, "periodSeconds": 0}
    filled_probe = {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    spec: dict[str, Any] = {
        "initContainers": [{"name": "i", "image": "i:1"}],
        "containers": [
            {
                "name": "c",
                "image": "c:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": field}],
                "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                "readinessProbe": probe,
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            }
        ],
        "volumes": [
            {"name": "nothing"},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "down", "downwardAPI": {"items": [{"path": "p", **field}]}},
            {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    }
    filled: Any = with_spec_defaults(spec)
    assert filled["initContainers"][0]["imagePullPolicy"] == "IfNotPresent"
    [container] = _containers(spec)
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": filled_field}]
    assert [each["protocol"] for each in container["ports"]] == ["TCP", "UDP"]
    assert container["readinessProbe"] == filled_probe
    assert container["lifecycle"] == {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}}
    assert filled["volumes"] == [
        {"name": "nothing", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/x", "type": ""}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "config", "configMap": {"name": "c", "defaultMode": 420}},
        {"name": "down", "downwardAPI": {"items": [{"path": "p", **filled_field}], "defaultMode": 420}},
        {
            "name": "all",
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                "defaultMode": 420,
            },
        },
    ]


def test_a_pod_with_its_defaults_is_read_again_as_it_is_shown() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    shown = with_pod_defaults(pod_to_v1(pod_from_v1(pod | {"spec": {"containers": [{"name": "c", "image": "i"}]}})))
    assert with_pod_defaults(pod_to_v1(pod_from_v1(shown))) == shown


def test_empty_contexts_of_containers_are_shown_as_they_came() -> None:
    given = {"name": "c", "image": "i", "securityContext": {"capabilities": {}}, "lifecycle": {}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [given]}}
    shown: Any = pod_to_v1(pod_from_v1(pod))
    [container] = shown["spec"]["containers"]
    assert (container["securityContext"], container["lifecycle"]) == ({"capabilities": {}}, {})


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    filled: dict[str, Any] = with_spec_defaults(spec)
    return list(filled["containers"])
