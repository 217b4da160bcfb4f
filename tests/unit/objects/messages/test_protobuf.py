"""Bodies in protobuf form are read as kubectl sends them; broken ones are refused."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.objects.messages.protobuf import UnreadableMessage, object_of

SENT = json.loads((Path(__file__).parents[3] / "golden/kubectl-protobuf/kubectl-1.32.json").read_text())
"""What ``kubectl create`` and ``kubectl auth can-i`` sent, as hexadecimal digits, and the objects."""


@pytest.mark.parametrize("recorded", SENT, ids=lambda each: str(each["object"]["kind"]))
def test_what_kubectl_sends_is_read(recorded: dict[str, Any]) -> None:
    assert object_of(bytes.fromhex(recorded["sent"])) == recorded["object"]


def test_an_empty_value_that_means_something_stays() -> None:
    [deployment] = [each["object"] for each in SENT if each["object"]["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 0
    assert "status" not in deployment


@given(at=st.integers(0, 500), byte=st.integers(0, 255), recorded=st.sampled_from(SENT))
def test_broken_bodies_are_refused_and_never_crash(at: int, byte: int, recorded: dict[str, Any]) -> None:
    sent = bytearray.fromhex(recorded["sent"])
    sent[at % len(sent)] = byte
    for body in (bytes(sent), bytes(sent[: at % len(sent)])):
        with suppress(UnreadableMessage):
            json.dumps(object_of(body))


def test_a_kind_without_known_fields_is_named() -> None:
    gopher = b"k8s\0\x0a\x1e\x0a\x14example.com/v1alpha1\x12\x06Gopher"
    with pytest.raises(UnreadableMessage, match=r"the fields of Gopher in .* are not known"):
        object_of(gopher)
