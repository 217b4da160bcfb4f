"""Objects come as JSON, YAML and protobuf; what cannot be read is refused by name."""

from __future__ import annotations

import pytest

from plugbay.node.api.writing.bodies import body_of
from plugbay.ops.routing import HttpError, Request


def sent(media: str, body: bytes) -> Request:
    return Request("POST", "/", headers={"content-type": media}, body=body)


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("application/json", b'{"kind": "ConfigMap"}'),
        ("", b'{"kind": "ConfigMap"}'),
        ("Application/JSON; charset=utf-8", b'{"kind": "ConfigMap"}'),
        ("application/yaml; charset=utf-8", b"kind: ConfigMap\n"),
        ("application/vnd.kubernetes.protobuf", b'k8s\0\x12\x15{"kind": "ConfigMap"}"\x10application/json'),
    ],
)
def test_every_form_is_read(media: str, body: bytes) -> None:
    assert body_of(sent(media, body)) == {"kind": "ConfigMap"}


@pytest.mark.parametrize(
    ("media", "body", "status"),
    [
        ("application/cbor", b"", 415),
        ("text/plain", b"{}", 415),
        ("application/x-www-form-urlencoded", b"{}", 415),
        ("application/json", b"kind: ConfigMap", 400),
        ("application/yaml", b"kind: [", 400),
        ("application/yaml", b"a: 1\n---\nb: 2\n", 400),
        ("application/yaml", b"\xff", 400),
        ("application/vnd.kubernetes.protobuf", b"{}", 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x12", 400),
    ],
)
def test_other_bodies_are_refused(media: str, body: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        body_of(sent(media, body))
    assert refused.value.status == status
