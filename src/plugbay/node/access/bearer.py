"""The check of each request to the API: a token that only its user knows, and a host that is meant. Pure."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Final

from plugbay.ops.http_access import RequestHead
from plugbay.ops.routing import HttpError

_BEARER: Final = "Bearer "
_PORT: Final = re.compile(r":[0-9]{1,5}$")


def bearer_check(
    token: str,
    names: Collection[str],
    check_owner: Callable[[RequestHead], None],
    check_account: Callable[[str, RequestHead], None],
) -> Callable[[RequestHead], None]:
    """A check that refuses requests without the node's token or an account's, and those for another host.

    A page that a browser shows can send requests to a name that leads here; with the token it could do what it wants.

    Args:
        names: host names that are meant. Addresses always are.
        check_owner: is given each request with the node's token, and raises `HttpError` to refuse it.
        check_account: is given any other token, empty if there is none, and raises `HttpError` too.
    """
    wanted = f"{_BEARER}{token}".encode()

    def check(head: RequestHead) -> None:
        host = _PORT.sub("", head.headers.get("host", "")).strip("[]").lower()
        if host and host not in names and not _is_address(host):
            raise HttpError(421, "BadRequest", f"{host[:80]!r} is not a name of this node")
        given = head.headers.get("authorization", "")
        if hmac.compare_digest(given.encode("latin-1", errors="replace"), wanted):
            check_owner(head)
        else:
            check_account(given.removeprefix(_BEARER) if given.startswith(_BEARER) else "", head)

    return check


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
