"""Addresses as the command line has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.ops.listening import Address, TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9400", TcpAddress("", 9400)),
        ("127.0.0.1:9400", TcpAddress("127.0.0.1", 9400)),
        ("localhost:0", TcpAddress("localhost", 0)),
        ("[::1]:9400", TcpAddress("::1", 9400)),
        ("[fe80::1%eth0]:65535", TcpAddress("fe80::1%eth0", 65535)),
        ("unix:/run/plugbay/metrics.sock", UnixAddress(Path("/run/plugbay/metrics.sock"))),
    ],
)
def test_address_is_read_and_shown_as_it_was_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text.removeprefix("unix:")


@pytest.mark.parametrize(
    "text", ["", "9400", ":", "host:", ":65536", ":-1", "::1:9400", "[::1]", "[]:1", "unix:", "a:b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address to listen at; it must be like :9400"):
        parse_address(text)
