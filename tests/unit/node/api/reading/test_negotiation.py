"""The forms that clients ask for."""

from __future__ import annotations

import pytest

from plugbay.node.api.reading.negotiation import MediaForm, prefers_yaml, wanted_form
from plugbay.ops.routing import HttpError

KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", MediaForm.OBJECTS),
        ("*/*", MediaForm.OBJECTS),
        ("application/json", MediaForm.OBJECTS),
        ("application/json, */*", MediaForm.OBJECTS),
        (KUBECTL, MediaForm.TABLE),
        ("application/vnd.kubernetes.protobuf, application/json", MediaForm.OBJECTS),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", MediaForm.METADATA_LIST),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json", MediaForm.METADATA),
        ("application/json;as=Table;v=v2;g=meta.k8s.io, application/json", MediaForm.OBJECTS),
        ("application/json; as=Cake; v=v1; g=meta.k8s.io,application/json;q=0.5", MediaForm.OBJECTS),
        ("application/json;stream=watch", MediaForm.OBJECTS),
        ("application/yaml", MediaForm.OBJECTS),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", MediaForm.TABLE),
    ],
)
def test_the_first_form_that_there_is_counts(accept: str, form: MediaForm) -> None:
    assert wanted_form(accept) is form


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "text/html", "text/yaml", ";;"])
def test_other_media_types_are_refused_by_name(accept: str) -> None:
    with pytest.raises(HttpError) as refused:
        wanted_form(accept)
    assert refused.value.status == 406
    assert "application/json" in refused.value.message


def test_a_stream_is_never_yaml() -> None:
    with pytest.raises(HttpError):
        wanted_form("application/yaml", is_stream=True)
    assert wanted_form("application/yaml, */*", is_stream=True) is MediaForm.OBJECTS


@pytest.mark.parametrize(
    ("accept", "is_preferred"),
    [
        ("", False),
        ("*/*", False),
        ("application/yaml", True),
        ("text/html, application/yaml;q=0.9, application/json", True),
        ("application/json, application/yaml", False),
        ("application/*, application/yaml", False),
    ],
)
def test_yaml_is_given_to_clients_that_name_it_first(accept: str, is_preferred: bool) -> None:
    assert prefers_yaml(accept) is is_preferred
