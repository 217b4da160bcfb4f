"""Secrets in traces: masked by the names of variables and annotations, in the bytes as well."""

from __future__ import annotations

import pytest

from plugbay.traffic.masking import looks_secret, masked
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from plugbay.wire.message_values import ALLOCATE


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
    for record in (answer(plain.SerializeToString()), answer(b"\xff"), answer(b"", TrafficEvent.REQUEST)):
        assert masked(record) is record
