"""What ``pod wait --for`` takes, and when it holds."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

import pytest

from plugbay.cli.arguments.options import duration_s
from plugbay.cli.kubectl.wait_conditions import parse_condition, parse_node_condition
from plugbay.errors import UsageError
from plugbay.printers.jsonpath import find, parse_jsonpath
from plugbay.printers.pod_status import state_text

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web"}},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Odd", "status": "Unknown"}],
        "containerStatuses": [{"name": "a", "ready": True, "restartCount": 0}, {"name": "b", "ready": False}],
    },
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("condition=Ready", True),
        ("condition=ready=true", True),
        ("condition=Ready=False", False),
        ("condition=Odd", False),
        ("condition=Odd=Unknown", True),
        ("condition=Missing", False),
        ("condition=Missing=False", False),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath={.status.phase}=Succeeded", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath=.status.phase=Running", True),
        ("jsonpath=status.phase=Running", True),
        ("jsonpath={.status.reason}", False),
        ('jsonpath={.status.conditions[?(@.type=="Ready")].status}=True', True),
        ("delete", False),
        ("DELETE", False),
    ],
)
def test_conditions_hold_as_kubectl_has_them(text: str, holds: bool) -> None:
    assert parse_condition(text).holds(POD) is holds


@pytest.mark.parametrize(
    "text",
    ["", "Ready", "condition", "condition=", "jsonpath=", "jsonpath={.a}=", "jsonpath={.a}b", "jsonpath={.a", "create"],
)
def test_what_cannot_be_waited_for_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_condition(text)


NODE: dict[str, Any] = {
    "status": {
        "capacity": {"example.com/gopher": "3"},
        "allocatable": {"example.com/gopher": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("resource=example.com/gopher", True),
        ("resource=example.com/gopher=2", True),
        ("resource=example.com/gopher=1", False),
        ("resource=example.com/gopher>=1", True),
        ("resource=example.com/gopher>=3", False),
        ("capacity=example.com/gopher=3", True),
        ("resource=example.com/other", False),
        ("resource=example.com/other=0", True),
        ("condition=Ready", True),
        (r"jsonpath={.status.allocatable.example\.com/gopher}=2", True),
    ],
)
def test_nodes_are_waited_for_by_their_resources(text: str, holds: bool) -> None:
    assert parse_node_condition(text).holds(NODE) is holds


@pytest.mark.parametrize("text", ["delete", "resource=", "resource=gopher=1", "resource=cpu", "resource=a.b/c=x", ""])
def test_what_no_node_can_come_to_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"--for.* wants "):
        parse_node_condition(text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("condition=Ready=False", "Ready is True"),
        ("condition=Missing", "Missing is not set"),
        ("jsonpath={.status.phase}=Failed", "{.status.phase} is Running"),
        ("jsonpath={.status.reason}", "{.status.reason} is not set"),
    ],
)
def test_what_was_seen_instead_is_told(text: str, seen: str) -> None:
    assert parse_condition(text).seen(POD) == seen


def test_what_a_node_has_instead_is_told() -> None:
    seen = parse_node_condition("resource=example.com/gopher=3").seen(NODE)
    assert seen == "example.com/gopher has capacity 3, of which 2 can be allocated"
    seen = parse_node_condition("resource=example.com/other").seen(NODE)
    assert seen == "the node has no example.com/other: no plugin has offered it"


def test_the_state_of_a_pod_says_why_it_is_so() -> None:
    pod = {
        "spec": {"containers": [{"name": "a"}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "1 Insufficient example.com/gopher"}],
        },
    }
    assert state_text(pod) == "the pod is Pending (0/1 ready): 1 Insufficient example.com/gopher"
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image\nat all"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "a", "state": waiting}]}
    assert state_text(pod | {"status": status}) == "the pod is ErrImagePull (0/1 ready): no such image"
    assert state_text({}) == "the pod is gone"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("{.status.containerStatuses[0].ready}", "true"),
        ("{.status.containerStatuses[-1].name}", "b"),
        ("{.status.containerStatuses[0].restartCount}", "0"),
        ("{.status.containerStatuses[2].ready}", None),
        ("{.status.containerStatuses[?(@.name=='b')].ready}", "false"),
        ("{.status.containerStatuses[?(@.name=='c')].ready}", None),
        (r"{.metadata.labels.app\.kubernetes\.io/name}", "web"),
        ("{.metadata['labels']['app.kubernetes.io/name']}", "web"),
        ("{.status.phase.deeper}", None),
        ("{.status.phase[0]}", None),
        ("{.metadata.labels}", '{"app.kubernetes.io/name": "web"}'),
    ],
)
def test_a_path_leads_to_one_value(path: str, value: str | None) -> None:
    assert find(POD, parse_jsonpath(path)) == value


@pytest.mark.parametrize(
    "path", ["{.a[}", "{.a[*]}", "{..a}", "{.a.}", "{}", "{.a[1:2]}", "{.a['b','c']}", "{.a[?(b==1)]}"]
)
def test_a_path_we_do_not_know_is_a_usage_error(path: str) -> None:
    with pytest.raises(UsageError, match="is not a JSONPath that plugbay knows"):
        parse_jsonpath(path)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h30m", 5400), ("250ms", 0.25), ("1.5m", 90), ("0", 0), ("0s", 0), ("-1s", -1), ("-0", 0)],
)
def test_times_are_written_as_in_go(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "1d", "1h 30m", "--1s", "1e3s", "٣s", f"-{'9' * 400}s"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="wants a time such as 30s or 1h30m"):
        duration_s(text)
