"""The conditions under which the page is shown: a name that it is meant for, and a token off loopback."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from plugbay.ops.http_access import RequestHead
from plugbay.ops.routing import HttpError

SECURITY_HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost"})


def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine only."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class PageGuard:
    """Refuses what a page of another origin could ask for: a name that leads here for a moment (DNS rebinding).

    Args:
        names: names of hosts besides IP addresses and ``localhost`` under which the page may be asked for.
        token: has to be the first segment of paths; empty for none.
    """

    def __init__(self, names: Iterable[str] = (), *, token: str = "") -> None:
        self._names = _LOCAL_NAMES | {name.lower() for name in names}
        self._token = token

    def check(self, head: RequestHead) -> None:
        """Refuse a request.

        Raises:
            HttpError: 421 for a host that is not ours, 403 without the token, 405 for what would change something.
        """
        if head.method not in ("GET", "HEAD"):
            raise HttpError(405, "MethodNotAllowed", "this page is for reading only", headers=(("Allow", "GET, HEAD"),))
        host = _host(head.headers.get("host", ""))
        if host not in self._names and not _is_ip(host):
            raise HttpError(
                421,
                "MisdirectedRequest",
                f"{host or 'the empty name'} is not a name of this page; --ui-name NAME allows it",
            )
        if self._token and not hmac.compare_digest(_first_segment(head.target).encode(), self._token.encode()):
            raise HttpError(403, "Forbidden", "the address needs its token: use the one that was logged at the start")


def _host(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def _is_ip(host: str) -> bool:
    """An address cannot be rebound: a foreign page that asks for it is of another origin."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _first_segment(target: str) -> str:
    return target.partition("?")[0].removeprefix("/").partition("/")[0]
