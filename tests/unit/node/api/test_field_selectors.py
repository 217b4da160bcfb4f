"""Field selectors as an API server reads them."""

from __future__ import annotations

import pytest

from plugbay.errors import UsageError
from plugbay.node.api.field_selectors import EVENT_FIELDS, POD_FIELDS, FieldSelector

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
