"""Requests that apply a configuration: who sends them, and what is refused in an API server's words."""

from __future__ import annotations

import pytest

from plugbay.node.api.applying.configurations import configuration_of
from plugbay.node.api.applying.options import APPLY_PATCH, writer_of
from plugbay.ops.routing import HttpError, Request

NAMED = {"namespace": "default", "name": "c"}


def request(
    body: str = "", method: str = "PATCH", kind: str = APPLY_PATCH, agent: str = "", /, **query: str
) -> Request:
    headers = {"content-type": kind, "user-agent": agent}
    return Request(method, "/", query=query, headers=headers, body=body.encode(), params=NAMED)


@pytest.mark.parametrize(
    ("manager", "agent", "name"),
    [
        ("me", "kubectl/v1.32", "me"),
        ("", "kubectl/v1.32.0 (linux/amd64)", "kubectl"),
        ("", "Mozilla\t5", "Mozilla5"),
        ("", "x" * 200, "x" * 128),
        ("", "é" * 100, "é" * 64),
        ("", "", ""),
    ],
)
def test_a_client_goes_by_its_manager_or_its_program(manager: str, agent: str, name: str) -> None:
    """[TestManagerOrUserAgent]"""
    query = {"fieldManager": manager} if manager else {}
    assert writer_of(request("", "POST", "application/json", agent, **query)).manager == name


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            request(),
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (
            request("", "PATCH", "application/merge-patch+json", force="true"),
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
        ),
        (
            request("", "POST", "", fieldManager="x" * 129),
            'CreateOptions.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes',
        ),
        (
            request("", "PUT", "", fieldManager="é\n"),
            'UpdateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "é\\n": invalid character U+000A '
            "(at position 2)",
        ),
        (
            request(force="true", fieldManager="\t" * 129),
            'PatchOptions.meta.k8s.io "" is invalid: [fieldManager: Too long: may not be more than 128 bytes, ',
        ),
    ],
)
def test_options_that_cannot_be_are_refused(asked: Request, message: str) -> None:
    """[TestPatchOptionsValidation, TestValidateFieldManagerInvalid]"""
    with pytest.raises(HttpError) as refusal:
        writer_of(asked)
    assert refusal.value.status == 422
    assert refusal.value.message.startswith(message)
    assert refusal.value.details is not None


@pytest.mark.parametrize(
    "body",
    [
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1"}}',
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: '1'\n",
        "---\n# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata: {a: '2', a: '1'}\n",
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"2","a":"1"}}',
    ],
)
def test_configurations_are_yaml_or_json(body: str) -> None:
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    assert configuration_of(request(body), "ConfigMap", "v1") == wanted


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "error decoding patch: the body must be one object"),
        ("[]", "error decoding patch: the body must be one object"),
        ("a: [", "error decoding patch: "),
        ("{}", "invalid object type: /, Kind="),
        ("apiVersion: v1\nkind: Pod", "invalid object type: /v1, Kind=Pod"),
        ("apiVersion: apps/v1\nkind: ConfigMap", "invalid object type: apps/v1, Kind=ConfigMap"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: 5", "error decoding patch: metadata must be an object"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, managedFields: []}",
            "metadata.managedFields must be nil",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap",
            "the name of the object (c based on URL) was undeterminable: name must be provided",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: d}",
            "the name of the object (d) does not match the name on the URL (c)",
        ),
        ("a: 1\n---\nb: 2\n", "error decoding patch: the body must be one object"),
        ("\udcff", "error decoding patch: it is not UTF-8"),
        ('{"a": NaN}', "error decoding patch"),
    ],
)
def test_what_is_no_configuration_is_refused(body: str, message: str) -> None:
    """[TestVersionCheckManager, TestApplyManagedFieldsMustBeNil]"""
    asked = Request("PATCH", "/", body=body.encode(errors="surrogateescape"), params=NAMED)
    with pytest.raises(HttpError) as refusal:
        configuration_of(asked, "ConfigMap", "v1")
    assert refusal.value.status == 400
    assert refusal.value.message.startswith(message) or body == '{"a": NaN}'


@pytest.mark.parametrize("body", ['{"a": 1, "a": 2}', "a: 1\na: 2\n"])
def test_keys_that_stand_twice_are_refused_where_the_client_asks_for_it(body: str) -> None:
    with pytest.raises(HttpError, match=r"error decoding patch.*a"):
        configuration_of(request(body, fieldValidation="Strict"), "ConfigMap", "v1")
