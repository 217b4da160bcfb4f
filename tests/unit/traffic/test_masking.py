"""Secrets in traces: masked by the names of variables and annotations, in the bytes as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plugbay.errors import RpcCode, RpcFailed
from plugbay.traffic.masking import masked, masked_step, masked_value
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.traffic.secret_texts import looks_secret, masked_text
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.generated import pluginregistration_v1_pb2 as registration_pb
from plugbay.wire.message_values import ALLOCATE, REGISTRATION_STATUS


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASSWORD",
        "PASSWD",
        "db-pass",
        "GITHUB_TOKEN",
        "tokens",
        "API_KEY",
        "apikey",
        "AWS_SECRET_ACCESS_KEY",
        "example.com/auth",
        "LICENSE_KEY",
        "key",
        "PG_PWD",
        "COOKIE",
        "credentials.json",
        "SSHPASS",
        "storageAccountKey",
        "ID_JWT",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["NVIDIA_VISIBLE_DEVICES", "PATH", "COMPASS", "KEYBOARD", "AUTHOR", "MONKEY_COUNT", "PWDX_DIR", "passthrough"],
)
def test_names_that_are_harmless(name: str) -> None:
    assert not looks_secret(name)


def answer(message: bytes, event: TrafficEvent = TrafficEvent.ANSWER) -> TrafficRecord:
    return TrafficRecord(0.0, event, Party.PLUGIN, 1, 1, "example.com/gopher", ALLOCATE, message)


def test_values_are_masked_in_the_bytes_and_the_rest_survives() -> None:
    container = pb.ContainerAllocateResponse(envs={"TOKEN": "s3cret", "A": "1"}, annotations={"x/secret": "s3cret"})
    encoded = pb.AllocateResponse(container_responses=[container]).SerializeToString() + b"\xc0\x3e\x05"
    record = masked(answer(encoded))
    assert b"s3cret" not in record.message
    assert record.value == {
        "container_responses": [{"envs": {"A": "1", "TOKEN": "***"}, "annotations": {"x/secret": "***"}}],
        "unknown field 1000": [5],
    }


def test_records_without_secrets_stay_the_same() -> None:
    plain = pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(envs={"A": "1"})])
    ended = replace(answer(b"", TrafficEvent.END), failure=RpcFailed(RpcCode.INTERNAL, "no power: 5 % = little"))
    for record in (ended, answer(plain.SerializeToString()), answer(b"", TrafficEvent.REQUEST)):
        assert masked(record) is record


@pytest.mark.parametrize("encoded", [b"TOKEN=s3cret", b"\x0a\x02\x0a\xff s3cret"])
def test_answer_that_cannot_be_read_is_masked_whole_and_cannot_be_read_either(encoded: bytes) -> None:
    record = masked(answer(encoded))
    assert record.message == b"\xff" * len(encoded)
    assert record.value is None
    assert masked(record) == record


@pytest.mark.parametrize("is_nested", [False, True])
def test_texts_in_unknown_fields_are_left_out(is_nested: bool) -> None:
    unknown = b"\xc2\x3e\x06s3cret"
    known = pb.ContainerAllocateResponse(envs={"A": "1"}).SerializeToString() + (unknown if is_nested else b"")
    encoded = b"\x0a%c%b" % (len(known), known) + (b"" if is_nested else unknown)
    assert b"s3cret" in encoded
    record = masked(answer(encoded))
    assert b"s3cret" not in record.message
    assert record.value == {"container_responses": [{"envs": {"A": "1"}}]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://web:geh/eim@db:5432/a", "postgres://web:geh/eim@db:5432/a"),
        ("postgres://web:geh@eim@db:5432/a?x=1", "postgres://***@db:5432/a?x=1"),
        ("-Xmx1g -Djdbc.password=geheim -Da=b", "-Xmx1g -Djdbc.password=*** -Da=b"),
        ('cannot log in: api_key="ge heim", user=me', 'cannot log in: api_key="***", user=me'),
        ("key=geheim;EndpointSuffix=example.com", "key=***;EndpointSuffix=example.com"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nge\nheim\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("-----BEGIN PRIVATE KEY-----\ngeheim", "***"),
        ("sent eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.geheim.", "sent ***."),
        (f"ghp_{'geheim' * 6} is refused", "*** is refused"),
        ("/dev/nvidia0=/dev/nvidia0, monkey=5, mailto:a@b, https://example.com/@x", None),
    ],
)
def test_parts_that_are_secrets_by_their_form_are_masked_anywhere(text: str, shown: str | None) -> None:
    wanted = text if shown is None else shown
    assert masked_text(text) == wanted
    assert masked_value("OPTIONS", text) == wanted
    assert masked_text(wanted) == wanted


def test_texts_of_failures_and_problems_are_masked() -> None:
    failure = RpcFailed(RpcCode.INTERNAL, "cannot log in with token=geheim")
    record = masked(replace(answer(b"", TrafficEvent.END), failure=failure))
    assert str(record.failure) == str(RpcFailed(RpcCode.INTERNAL, "cannot log in with token=***"))
    step = PodEvent(1, RecordedStep.REFUSED, "u", problem=f"Allocate failed: {failure}")
    assert masked_step(step).problem == f"Allocate failed: {record.failure}"
    assert masked_step(calm := PodEvent(1, RecordedStep.REFUSED, "u", problem="no power")) is calm


def test_kubelets_word_on_a_registration_is_masked() -> None:
    said = registration_pb.RegistrationStatus(plugin_registered=False, error='refused: {"secret": "geheim"}')
    request = replace(answer(said.SerializeToString(), TrafficEvent.REQUEST), method=REGISTRATION_STATUS)
    record = masked(request)
    assert record.value == {"error": 'refused: {"secret": "***"}'}
    assert masked(record) is record
    assert masked(replace(request, message=b"\xff geheim")).message == b"\xff" * 8


def test_masking_of_long_texts_is_linear() -> None:
    for text in ("a" * 300_000, "a=" * 100_000, "://" * 100_000, "eyJ" * 100_000, "x@" * 100_000):
        assert masked_text(text) == text
