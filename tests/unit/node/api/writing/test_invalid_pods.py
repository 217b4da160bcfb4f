"""Refusals of pods have a cause for each problem, which kubectl prints."""

from __future__ import annotations

from plugbay.errors import ImmutablePod, InvalidManifest
from plugbay.node.api.writing.invalid_pods import immutable_pod, invalid_pod


def test_each_problem_is_a_cause() -> None:
    more = [InvalidManifest("Required value", field="spec.containers")]
    error = InvalidManifest("unknown field", field="spec.imagee", more=more)
    refusal = invalid_pod({"metadata": {"name": "p"}}, error)
    text = "[spec.imagee: unknown field, spec.containers: Required value]"
    assert refusal.message == f'Pod "p" is invalid: {text}'
    assert refusal.details == {
        "kind": "Pod",
        "name": "p",
        "causes": [
            {"reason": "FieldValueInvalid", "message": "unknown field", "field": "spec.imagee"},
            {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        ],
    }
    assert (invalid_pod({}, error).details or {})["name"] == ""


def test_each_field_that_may_not_change_is_a_cause() -> None:
    details = immutable_pod(ImmutablePod("p", ["spec.restartPolicy"])).details or {}
    assert (details["kind"], details["name"]) == ("Pod", "p")
    assert str(details["causes"]).count("spec.restartPolicy") == 1
