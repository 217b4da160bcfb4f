"""The table of facts about Kubernetes' messages is whole, and says how their lists are merged."""

from __future__ import annotations

from plugbay.manifest.shapes import ListOf, MapOf, Shape, Table, Text
from plugbay.objects.messages.fields import _LINES, INLINED, message_fields, message_rule, object_table
from plugbay.objects.strategic_merge import strategic_merge


def test_every_message_that_is_named_is_there() -> None:
    for message in _LINES:
        for field in message_fields(message):
            inner = field.type.strip("[]{}")
            assert len(inner) == 1 or inner in _LINES, (message, field)
            assert field.name != INLINED or inner in _LINES


def test_a_kind_has_the_fields_of_all_it_holds() -> None:
    spec = object_table("v1", "Pod").fields["spec"].shape
    assert isinstance(spec, Table)
    volumes = spec.fields["volumes"].shape
    assert isinstance(volumes, ListOf)
    assert isinstance(volumes.item, Table)
    assert {"name", "configMap", "emptyDir"} <= set(volumes.item.fields), "the fields of the source are the volume's"
    assert object_table("v1", "ConfigMap").fields["data"].shape == MapOf(Text())


def test_no_message_holds_itself() -> None:
    """The description of the API is made by following them all."""

    def follow(shape: Shape, above: int) -> None:
        assert above < 30
        match shape:
            case Table(fields):
                for field in fields.values():
                    follow(field.shape, above + 1)
            case ListOf(inner) | MapOf(inner):
                follow(inner, above + 1)
            case _:
                pass

    for api_version, kind in (("v1", "Pod"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")):
        follow(object_table(api_version, kind), 0)


def test_lists_are_merged_by_their_keys() -> None:
    service = {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81}]}, "metadata": {"finalizers": ["x"]}}
    patch = {"spec": {"ports": [{"port": 80, "name": "b"}]}, "metadata": {"finalizers": ["y"]}}
    merged = strategic_merge(service, patch, message_rule("core/v1.Service"))
    assert merged["spec"] == {"ports": [{"port": 80, "name": "b"}, {"port": 81}]}
    assert merged["metadata"] == {"finalizers": ["x", "y"]}
