"""Which resource names a kubelet takes, and which device IDs we offer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plugbay.errors import InvalidDeviceId, InvalidResourceName
from plugbay.model.ids import is_extended_resource, parse_device_id, parse_resource_name

GOLDEN: Final = Path(__file__).parents[2] / "golden/registration/resource-names.json"
VERDICTS: Final[list[dict[str, object]]] = json.loads(GOLDEN.read_text())

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
domains = st.lists(labels, min_size=1, max_size=4).map(".".join).filter(lambda text: not text.startswith("requests."))
kinds = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: repr(verdict["name"])[:60])
def test_kubelets_verdict(verdict: dict[str, object]) -> None:
    assert is_extended_resource(str(verdict["name"])) is verdict["accepted"]


def test_there_are_verdicts_of_both_kinds() -> None:
    assert {verdict["accepted"] for verdict in VERDICTS} == {True, False}


@given(domains, kinds)
def test_a_domain_and_a_kind_make_a_name(domain: str, kind: str) -> None:
    name = f"{domain}/{kind}"
    assert parse_resource_name(name) == name


@given(domains.filter(lambda text: not text.endswith("kubernetes.io")), kinds, st.characters(), st.integers(0, 60))
@example("v", "a", "\n", 60)
def test_a_character_out_of_place_spoils_a_name(domain: str, kind: str, intruder: str, place: int) -> None:
    if intruder.isascii() and (intruder.isalnum() or intruder in "-._"):
        return
    name = f"{domain}/{kind}"
    assert not is_extended_resource(name[:place] + intruder + name[place:])


@given(st.text(max_size=12) | st.sampled_from(["kubernetes.io/", "\ud800/x"]))
def test_the_refusal_names_the_name(text: str) -> None:
    if is_extended_resource(text):
        return
    with pytest.raises(InvalidResourceName) as refusal:
        parse_resource_name(text)
    assert refusal.value.name == text


def test_the_refusal_has_the_kubelets_text_and_says_what_would_do() -> None:
    said, hint = str(InvalidResourceName("gpu")).split("; ")
    assert said == 'the ResourceName "gpu" is invalid'
    assert hint == "it has to be vendor-domain/type, such as example.com/gopher, and not of kubernetes.io"


@pytest.mark.parametrize(
    "text", ["g1", "x" * 63, "é" * 31, "GPU-8dcd427f", "with space", "a/b", "$(x)"], ids=lambda text: text[:12]
)
def test_device_ids_we_offer(text: str) -> None:
    assert parse_device_id(text) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("", "device ID '' is empty", id="empty"),
        pytest.param("x" * 64, f"device ID '{'x' * 64}' has 64 bytes; the device plugin API allows 63", id="too-long"),
        pytest.param("é" * 32, f"device ID '{'é' * 32}' has 64 bytes; the device plugin API allows 63", id="in-bytes"),
        pytest.param("a\nb", r"device ID 'a\nb' holds control characters", id="line-break"),
        pytest.param("a\0", r"device ID 'a\x00' holds control characters", id="nul"),
        pytest.param("a\udcff", r"device ID 'a\udcff' is not valid UTF-8", id="no-utf8"),
    ],
)
def test_device_ids_we_refuse(text: str, sentence: str) -> None:
    with pytest.raises(InvalidDeviceId) as refusal:
        parse_device_id(text)
    assert str(refusal.value) == sentence


@given(st.text(max_size=70))
def test_a_device_id_is_taken_as_it_is_or_refused(text: str) -> None:
    if 1 <= len(text.encode()) <= 63 and text.isprintable():
        assert parse_device_id(text) == text
        return
    with pytest.raises(InvalidDeviceId) as refusal:
        parse_device_id(text)
    assert refusal.value.device_id == text
