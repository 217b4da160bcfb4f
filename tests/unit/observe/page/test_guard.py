"""The names and tokens under which the page is shown."""

from __future__ import annotations

import pytest

from plugbay.observe.page.guard import PageGuard, is_loopback
from plugbay.ops.http_access import RequestHead
from plugbay.ops.routing import HttpError


def asked(guard: PageGuard, host: str, target: str = "/", method: str = "GET") -> int:
    try:
        guard.check(RequestHead(method, target, {"host": host} if host else {}))
    except HttpError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9401", "LocalHost.", "127.0.0.1:9401", "[::1]:9401", "192.0.2.7", "node-1:80"]
)
def test_addresses_and_names_that_were_given_are_served(host: str) -> None:
    assert asked(PageGuard(["Node-1"]), host) == 200


@pytest.mark.parametrize("host", ["", "evil.example", "evil.example:9401", "localhost.evil.example", "[::1"])
def test_names_that_may_be_rebound_are_refused(host: str) -> None:
    assert asked(PageGuard(), host) == 421


def test_a_token_has_to_be_the_first_segment() -> None:
    guard = PageGuard(token="secret")
    assert asked(guard, "localhost", "/secret/state.json?x") == 200
    for target in ("/", "/state.json", "/secret2/", "/other/secret/", "/?secret", "/sécret/"):
        assert asked(guard, "localhost", target) == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_allowed(method: str) -> None:
    assert asked(PageGuard(), "localhost", method=method) == 405


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.9.9.9", True), ("::1", True), ("", False), ("0.0.0.0", False), ("node", False)],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
