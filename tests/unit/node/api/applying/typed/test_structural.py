"""Types of custom resources, as their schemas say it."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.node.api.applying.elements import path_text
from plugbay.node.api.applying.typed.builtin_types import builtin_type
from plugbay.node.api.applying.typed.comparing import fields_of
from plugbay.node.api.applying.typed.structural import structural_type
from plugbay.node.api.applying.typed.types import ListMerge
from plugbay.node.api.applying.typed.validation import check_type
from plugbay.node.api.applying.typed.walking import MistypedValue

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "args": {"type": "array", "items": TEXT},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
                "labels": {"type": "object", "additionalProperties": TEXT},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
                "number": {"type": "number"},
                "time": {"type": "string", "format": "date-time"},
                "embedded": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "open": {"type": "object"},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"ports": [{"port": 1}]},
         ['.ports[port=1,protocol="TCP"]', '.ports[port=1,protocol="TCP"].port']),
        ({"tags": ["x"]}, ['.tags[="x"]']),
        ({"args": ["x"]}, [".args"]),
        ({"selector": {"a": "b"}}, [".selector"]),
        ({"labels": {"a": "b"}}, [".labels.a"]),
        ({"free": {"a": {"b": [1]}}}, [".free.a", ".free.a.b"]),
        ({"either": "5%", "number": 1.5, "time": "now"}, [".either", ".number", ".time"]),
        ({"embedded": {"metadata": {"finalizers": ["f"]}, "x": {"y": 1}}},
         ['.embedded.x', '.embedded.metadata.finalizers[="f"]', ".embedded.x.y"]),
        ({"open": {"a": 1}}, [".open.a"]),
    ],
)  # fmt: skip
def test_the_fields_of_a_custom_resource(spec: Any, fields: list[str]) -> None:
    """As upstream's schema of it says [kube-openapi, schemaconv: TestCRDOpenAPIConversion]"""
    kind = structural_type(SCHEMA)
    value = {"spec": spec}
    check_type(value, kind)
    assert [path_text(path) for path in fields_of(value, kind).paths()] == [f".spec{each}" for each in fields]


@pytest.mark.parametrize("spec", [{"other": 1}, {"number": "1"}, {"tags": [1]}, {"ports": [{"port": "a"}]}])
def test_what_the_schema_does_not_have_is_refused(spec: Any) -> None:
    with pytest.raises(MistypedValue):
        check_type(
            {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "spec": spec}, structural_type(SCHEMA)
        )


def test_a_schema_that_keeps_unknown_fields_deduces_their_types() -> None:
    kind = structural_type({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    check_type({"apiVersion": "a/v1", "metadata": {"name": "x"}, "spec": {"a": {"b": 1}}}, kind)
    assert [path_text(path) for path in fields_of({"spec": {"a": {"b": 1}}}, kind).paths()] == [
        ".spec", ".spec.a", ".spec.a.b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "path", "keys"),
    [
        ("", "Pod", ["spec", "containers"], {"name": ""}),
        ("", "Service", ["spec", "ports"], {"port": 0, "protocol": "TCP"}),
        ("apps", "Deployment", ["spec", "template", "spec", "volumes"], {"name": ""}),
        ("", "ConfigMap", ["metadata", "ownerReferences"], {"uid": ""}),
    ],
)
def test_lists_of_built_in_kinds_have_keys(group: str, kind: str, path: list[str], keys: dict[str, object]) -> None:
    found = builtin_type(group, "v1", kind).type
    for name in path:
        assert found.map is not None
        inner = found.map.at(name)
        assert inner is not None
        found = inner
    assert found.list is not None
    assert (found.list.merge, found.list.keys, found.list.defaults) == (ListMerge.KEYED, tuple(keys), keys)
