"""Formats of texts and numbers, as an API server has them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from plugbay.node.api.stored.custom.formats import is_formatted, number_problem, unknown_formats

GOOD = {
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "byte": ["YWJj", "YQ=="],
    "cidr": ["10.0.0.0/8", "010.0.0.0/8", "::/0", "fd00::1/64"],
    "creditcard": ["4111 1111 1111 1111"],
    "date": ["2026-02-28"],
    "date-time": ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123+01:00"],
    "datetime": ["2026-01-02T03:04:05Z"],
    "duration": ["1h30m", "0", "-1.5s", "22 ns", "3 days", "2 Weeks"],
    "email": ["a@example.com", "Gopher <a.b@example.com>", '"a b"@x'],
    "hexcolor": ["#fff", "a0B1c2"],
    "hostname": ["a", "burrow-1.example.com", "größe.example"],
    "ipv4": ["10.0.0.1", "010.000.0.1", "::ffff:10.0.0.1"],
    "ipv6": ["::1", "fd00:0:0::1", "::ffff:10.0.0.1"],
    "isbn": ["0321751043", "978-0321751041"],
    "isbn10": ["0-321-75104-3"],
    "isbn13": ["978 0321751041"],
    "k8s-long-name": ["a.b-c"],
    "k8s-short-name": ["a-b"],
    "mac": ["00:00:5e:00:53:01", "02-00-5E-10-00-00-00-01", "0000.5e00.5301"],
    "password": ["", "anything"],
    "rgbcolor": ["rgb(255, 0,12)"],
    "ssn": ["123-45-6789", "123 45 6789"],
    "uri": ["http://example.com/a%20b?x=1", "/path", "mailto:gopher", "http://[::1]:80/", "*"],
    "uuid": ["6F1C2D3E-0000-0000-0000-000000000000", "6f1c2d3e000000000000000000000000"],
    "uuid3": ["6f1c2d3e-0000-3000-0000-000000000000"],
    "uuid4": ["6f1c2d3e-0000-4000-8000-000000000000"],
    "uuid5": ["6f1c2d3e-0000-5000-b000-000000000000"],
    "unheard-of": ["anything"],
}
BAD = {
    "bsonobjectid": ["507f"],
    "byte": ["", "YQ", "Y Q="],
    "cidr": ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/x", "fd00::1.2.3.4.5/64"],
    "creditcard": ["4111 1111 1111 1112", "1"],
    "date": ["2026-02-30", "20260228", "2026-2-3"],
    "date-time": ["2026-01-02", "2026-01-02T24:00:00Z", "2026-01-02T03:04:05", "today"],
    "duration": ["", "1", "soon", "5 parsecs"],
    "email": ["gopher", "a@b@c", "a b@c", "<a@b"],
    "hexcolor": ["#ffff"],
    "hostname": ["-a.example", "a_b.example.com", "a" * 64 + ".example"],
    "ipv4": ["10.0.0", "10.0.0.256", "::1", "a"],
    "ipv6": ["10.0.0.1", "fe80::1%eth0", "1::2::3"],
    "isbn": ["0321751044"],
    "isbn13": ["978-0321751042"],
    "k8s-short-name": ["a.b", "A"],
    "mac": ["00:00:5e:00:53", "00:00-5e:00:53:01"],
    "rgbcolor": ["rgb(256,0,0)"],
    "ssn": ["123456789"],
    "uri": ["", "example.com", "http://a b/", "http://a:x/", "/%zz", "a\\nb:"],
    "uuid": ["6f1c2d3e"],
    "uuid4": ["6f1c2d3e-0000-3000-8000-000000000000"],
}


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in GOOD.items() for text in texts])
def test_texts_of_a_format(form: str, text: str) -> None:
    assert is_formatted(text, {"type": "string", "format": form})


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in BAD.items() for text in texts])
def test_texts_that_have_not_their_format(form: str, text: str) -> None:
    assert not is_formatted(text, {"type": "string", "format": form})


def test_nothing_is_printed_of_a_hostname(capfd: pytest.CaptureFixture[str]) -> None:
    assert is_formatted("burrow.example.com", {"type": "string", "format": "hostname"})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("form", sorted(GOOD))
def test_long_texts_are_checked_in_linear_time(form: str) -> None:
    started = time.thread_time()
    for part in ("1", "a", ".", ":", "/", "a.", "1 ", "a@", "%20", "<", "=", "0:", " "):
        is_formatted(part * (200_000 // len(part)), {"type": "string", "format": form})
    is_formatted("a@" + " " * 200_000 + "<", {"type": "string", "format": form})
    is_formatted("a@" + "\N{EM SPACE}" * 200_000 + "<", {"type": "string", "format": form})
    assert time.thread_time() - started < 3


@pytest.mark.parametrize(
    ("value", "schema", "problem"),
    [
        (2**31 - 1, {"type": "integer", "format": "int32"}, ""),
        (2**31, {"type": "integer", "format": "int32"}, "must be of type integer with format int32"),
        (-(2**63), {"type": "integer", "format": "int64"}, ""),
        (2**63, {"type": "integer"}, "must be of type integer (default format)"),
        (1e39, {"type": "number", "format": "float"}, "must be of type number with format float"),
        (1e39, {"type": "number", "format": "double"}, ""),
        (2**40, {"x-kubernetes-int-or-string": True}, ""),
    ],
)
def test_numbers_fit_their_format(value: float, schema: dict[str, Any], problem: str) -> None:
    found = number_problem(value, schema)
    assert problem in found
    assert bool(problem) is bool(found)


def test_formats_that_are_not_known_are_named() -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "format": text | {"format": "date"},
            "a": text | {"format": "odd"},
            "b": {"type": "array", "items": {"type": "integer", "format": "int8"}},
            "c": {"type": "integer", "format": "int32"},
            "d": {"type": "object", "default": {"format": "odder"}},
        },
    }
    assert list(unknown_formats(schema)) == ["odd", "int8"]
