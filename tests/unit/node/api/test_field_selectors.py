"""Field selectors as an API server reads them."""

from __future__ import annotations

import pytest

from plugbay.errors import UsageError
from plugbay.node.api.field_selectors import EVENT_FIELDS, POD_FIELDS, FieldSelector, SelectableFields
from plugbay.node.api.resources import EVENTS, NODES, PODS
from plugbay.node.api.stored.workloads.rows import JOBS, REPLICA_SETS

POD = {"metadata": {"name": "a,b", "namespace": "default"}, "spec": {}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        ("", True),
        ("status.phase=Running", True),
        ("status.phase==Running,metadata.namespace=default", True),
        ("status.phase=Running,metadata.namespace!=default", False),
        ("status.phase!=Running", False),
        ("status.phase!=Failed,", True),
        (r"metadata.name=a\,b", True),
        (r"metadata.name=a\\\,b", False),
        ("spec.nodeName=", True),
        ("spec.nodeName=n1", False),
    ],
)
def test_all_terms_have_to_hold(selector: str, holds: bool) -> None:
    assert FieldSelector(selector, POD_FIELDS).holds(POD) is holds


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("status.phase", "invalid field selector 'status.phase': cannot understand 'status.phase'"),
        ("=a", "invalid field selector '=a': cannot understand '=a'"),
        ("metadata.name=a=b", "cannot understand 'metadata.name=a=b'"),
        ("spec.replicas=1", "field label not supported: spec.replicas; supported are metadata.name, metadata"),
        ("involvedObject.name=p", "field label not supported: involvedObject.name"),
        ("metadata.name=" + "\\" * 5, "cannot understand"),
        ("metadata.name=a\\", "cannot understand"),
        (r"metadata.name=\x" * 3000, "cannot understand"),
    ],
)
def test_what_cannot_be_honoured_is_refused(selector: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("(", r"\(")):
        FieldSelector(selector, POD_FIELDS)


def test_events_are_selected_by_what_they_are_about() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "p"}, "reason": "Started", "metadata": {}}
    assert FieldSelector("involvedObject.kind=Pod,involvedObject.name=p", EVENT_FIELDS).holds(event)
    assert not FieldSelector("reason!=Started", EVENT_FIELDS).holds(event)


@pytest.mark.parametrize(
    ("fields", "selector", "item", "holds"),
    [
        (NODES.fields, "spec.unschedulable=false", {}, True),
        (NODES.fields, "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
        (NODES.fields, "spec.unschedulable!=true", {"spec": {"unschedulable": True}}, False),
        (PODS.fields, "spec.hostNetwork=false", {"spec": {}}, True),
        (PODS.fields, "spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        (PODS.fields, "spec.serviceAccountName=robot", {"spec": {"serviceAccountName": "robot"}}, True),
        (JOBS.fields, "status.successful=1", {"status": {"succeeded": 1}}, True),
        (JOBS.fields, "status.successful=0", {"status": {}}, True),
        (REPLICA_SETS.fields, "status.replicas=0", {"status": {}}, True),
        (REPLICA_SETS.fields, "status.replicas!=0", {"status": {"replicas": 3}}, True),
        (REPLICA_SETS.fields, "status.replicas!=0", {"status": {"replicas": 0}}, False),
        (EVENTS.fields, "source=kubelet", {"source": {"component": "kubelet"}}, True),
        (EVENTS.fields, "source=kubelet", {"source": {"component": ""}, "reportingComponent": "kubelet"}, True),
    ],
)
def test_numbers_and_flags_are_compared_as_an_api_server_writes_them(
    fields: SelectableFields, selector: str, item: dict[str, object], holds: bool
) -> None:
    assert FieldSelector(selector, fields).holds(item) is holds
