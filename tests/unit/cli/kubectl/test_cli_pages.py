"""Whole tables and pages against golden files."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from plugbay.cli.kubectl.forms import Form, list_of, object_text
from plugbay.cli.kubectl.rows import (
    View,
    event_view,
    node_view,
    oldest_first,
    pod_view,
    wide_event_view,
    wide_node_view,
    wide_pod_view,
)
from plugbay.cli.node.page import node_description
from plugbay.cli.pod.page import pod_description
from plugbay.cli.printing.table import Columns
from plugbay.printers.tables import node_status

Golden = Callable[[str, str], None]

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
GOPHER = "example.com/gopher"

RUNNING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "gopher-pod",
        "namespace": "default",
        "uid": "uid-1",
        "labels": {"run": "gopher", "app": "demo"},
        "annotations": {"note": "two\nlines"},
        "creationTimestamp": "2026-01-01T11:56:51Z",
    },
    "spec": {
        "nodeName": "n1",
        "initContainers": [{"name": "setup", "command": ["true"]}],
        "containers": [
            {
                "name": "gopher",
                "image": "busybox",
                "command": ["sh", "-c", "echo Hello\nsleep 3600"],
                "args": ["--verbose"],
                "env": [
                    {"name": "COLOR", "value": "blue"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"limits": {GOPHER: "2"}, "requests": {GOPHER: "2"}},
                "volumeMounts": [
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": "host", "mountPath": "/host", "readOnly": True, "subPath": "part"},
                ],
            }
        ],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": "/srv", "type": "Directory"}},
        ],
    },
    "status": {
        "phase": "Running",
        "hostIP": "127.0.0.1",
        "startTime": "2026-01-01T11:56:52Z",
        "qosClass": "BestEffort",
        "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}],
        "initContainerStatuses": [
            {
                "name": "setup",
                "containerID": "process://uid-1_setup_0",
                "ready": True,
                "restartCount": 0,
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": "2026-01-01T11:56:52Z",
                        "finishedAt": "2026-01-01T11:56:53Z",
                    }
                },
                "lastState": {},
            }
        ],
        "containerStatuses": [
            {
                "name": "gopher",
                "containerID": "process://uid-1_gopher_1",
                "ready": True,
                "restartCount": 1,
                "state": {"running": {"startedAt": "2026-01-01T11:58:00Z"}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "Error",
                        "startedAt": "2026-01-01T11:56:53Z",
                        "finishedAt": "2026-01-01T11:57:00Z",
                    }
                },
            }
        ],
    },
}
PENDING: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "gopher-pod2",
        "namespace": "lab",
        "uid": "uid-2",
        "creationTimestamp": "2026-01-01T11:59:55Z",
    },
    "spec": {"containers": [{"name": "gopher", "command": ["true"], "resources": {"limits": {GOPHER: "1"}}}]},
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
}
DEVICES: dict[str, Any] = {
    "releases": [
        {
            "call": "Deallocate",
            "resourceName": GOPHER,
            "deviceIDs": ["g4"],
            "holder": {"namespace": "", "pod": "", "container": "", "uid": "uid-9"},
            "since": "2026-01-01T11:58:00Z",
            "attempts": 3,
        }
    ],
    "resources": [
        {
            "resourceName": GOPHER,
            "capacity": 2,
            "allocatable": 1,
            "endpoint": {
                "state": "Live",
                "socket": "gopher.sock",
                "since": "2026-01-01T09:00:00Z",
                "options": {"preStartRequired": True, "deallocateRequired": False},
            },
            "devices": [
                {
                    "id": "g1",
                    "health": "Healthy",
                    "numaNodes": [0, 1],
                    "holder": {"namespace": "default", "pod": "gopher-pod", "container": "gopher", "uid": "uid-1"},
                },
                {"id": "g2", "health": "Unhealthy", "reason": "XidError", "numaNodes": None, "holder": None},
                {
                    "id": "g3",
                    "health": "Unknown",
                    "numaNodes": None,
                    "holder": {"namespace": "", "pod": "", "container": "gopher", "uid": "uid-0"},
                },
                {"id": "g4", "health": "Healthy", "numaNodes": None, "holder": None, "releasing": True},
            ],
        },
        {"resourceName": "example.com/gone", "capacity": 0, "allocatable": 0, "endpoint": None, "devices": []},
        {
            "resourceName": "example.com/mole",
            "capacity": 2,
            "allocatable": 0,
            "endpoint": {"state": "Stopped", "socket": "mole.sock", "since": "2026-01-01T11:00:00Z", "options": {}},
            "devices": [
                {"id": "m1", "health": "Unknown", "lastHealth": "Healthy", "reason": "", "numaNodes": None},
                {"id": "m2", "health": "Unknown", "lastHealth": "Unhealthy", "reason": "Blind", "numaNodes": None},
            ],
        },
    ],
    "pods": [
        {
            "namespace": "default",
            "name": "gopher-pod",
            "uid": "uid-1",
            "containers": [
                {
                    "name": "gopher",
                    "devices": [{"resourceName": GOPHER, "deviceIDs": ["g1", "g2", "g9"]}],
                    "env": {"Gopher": "g1,g2"},
                    "mounts": [{"containerPath": "/gophers", "hostPath": "/etc/gophers", "readOnly": True}],
                    "deviceNodes": [{"containerPath": "/dev/g1", "hostPath": "/dev/g1", "permissions": "rwm"}],
                    "cdiDevices": ["example.com/gopher=g1"],
                }
            ],
        }
    ],
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}, "creationTimestamp": "2026-01-01T09:00:00Z"},
    "status": {
        "capacity": {"cpu": "2", "memory": "1000Ki", "pods": "110", GOPHER: "2", "example.com/gone": "0"},
        "allocatable": {"cpu": "2", "memory": "1000Ki", "pods": "110", GOPHER: "1", "example.com/gone": "0"},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": "2026-01-01T09:00:00Z",
                "reason": "KubeletReady",
                "message": "plugbay node is posting ready status",
            }
        ],
        "addresses": [{"type": "Hostname", "address": "n1"}],
        "nodeInfo": {
            "kernelVersion": "6.1.0",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "containerRuntimeVersion": "process://0.1.0",
            "kubeletVersion": "plugbay-0.1.0",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    },
}


def event(name: str, kind: str, reason: str, last: str, *, count: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name.partition(".")[0]},
        "reason": reason,
        "message": f"{reason} happened\n",
        "type": "Normal",
        "count": count,
        "firstTimestamp": "2026-01-01T11:58:00Z",
        "lastTimestamp": last,
        "source": {"component": "kubelet"},
        **more,
    }


EVENTS = [
    event("gopher-pod.2", "Pod", "BackOff", "2026-01-01T11:59:55Z", count=5, type="Warning"),
    event("gopher-pod.1", "Pod", "Created", "2026-01-01T11:58:00Z"),
    event("n1.1", "Node", "NodeReady", "2026-01-01T11:58:00Z"),
]


def table(view: View, items: list[dict[str, Any]]) -> str:
    return Columns(view.header).table(row for item in items for row in view.rows(item, NOW))


def test_tables_are_golden(golden: Golden) -> None:
    pods, nodes = [RUNNING, PENDING], [NODE]
    golden("pods.txt", table(pod_view(), pods))
    golden("pods-wide.txt", table(wide_pod_view(DEVICES).with_namespaces(), pods))
    golden("nodes.txt", table(node_view(), nodes))
    golden("nodes-wide.txt", table(wide_node_view(), nodes))
    golden("events.txt", table(event_view(), oldest_first(EVENTS)))
    golden("events-wide.txt", table(wide_event_view().with_namespaces(), oldest_first(EVENTS)))


def test_pages_are_golden(golden: Golden) -> None:
    golden("pod-running.txt", pod_description(RUNNING, devices=DEVICES, events=EVENTS[:2], now=NOW, zone=UTC))
    golden("pod-pending.txt", pod_description(PENDING, devices={}, events=[], now=NOW, zone=UTC))
    golden("node.txt", node_description(NODE, devices=DEVICES, events=EVENTS[2:], now=NOW, zone=UTC))


def test_a_pod_that_is_being_deleted_says_until_when() -> None:
    metadata = RUNNING["metadata"] | {"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30}
    page = pod_description(RUNNING | {"metadata": metadata}, devices={}, events=[], now=NOW, zone=UTC)
    assert "Terminating (until Thu, 01 Jan 2026 12:00:30 +0000)\nTermination Grace Period:  30s" in page


def test_the_image_that_runs_is_told() -> None:
    (status,) = RUNNING["status"]["containerStatuses"]
    ran = RUNNING["status"] | {"containerStatuses": [status | {"imageID": "busybox@sha256:1"}]}
    page = pod_description(RUNNING | {"status": ran}, devices={}, events=[], now=NOW, zone=UTC)
    assert "    Image ID:      busybox@sha256:1\n" in page


def test_a_rejected_pod_says_why() -> None:
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Pod was rejected: no"}
    page = pod_description(RUNNING | {"status": status}, devices={}, events=[], now=NOW, zone=UTC)
    words = [line.split(None, 1) for line in page.splitlines()]
    assert ["Reason:", "UnexpectedAdmissionError"] in words
    assert ["Message:", "Pod was rejected: no"] in words


def test_a_node_that_takes_no_pods_says_so() -> None:
    drained = NODE | {"spec": {"unschedulable": True}}
    assert node_status(drained) == "Ready,SchedulingDisabled"
    page = node_description(drained, devices={}, events=[], now=NOW, zone=UTC)
    assert ["Unschedulable:", "true"] in [line.split() for line in page.splitlines()]


def test_objects_are_printed_in_kubectls_order() -> None:
    value: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "status": {"b": 1, "a": [{"d": 1, "c": "x"}]},
        "metadata": {"name": "p"},
    }
    assert object_text(value, Form.YAML) == (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nstatus:\n  a:\n  - c: x\n    d: 1\n  b: 1\n"
    )
    assert object_text(value, Form.JSON).startswith('{\n    "apiVersion": "v1",\n    "kind": "Pod",\n')


def test_names_are_kind_and_name() -> None:
    assert object_text(list_of([RUNNING, NODE]), Form.NAME) == "pod/gopher-pod\nnode/n1\n"
    assert object_text(RUNNING, Form.NAME) == "pod/gopher-pod\n"
