"""The check of each request to the API: a token that only its user knows, and a host that is meant. Pure."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from plugbay.ops.routing import HttpError

_BEARER: Final = "Bearer "
_PORT: Final = re.compile(r":[0-9]{1,5}$")


def bearer_check(
    token: str, names: Collection[str], is_account: Callable[[str], bool]
) -> Callable[[Mapping[str, str]], None]:
    """A check that refuses requests without the token, and those for another host.

    A page that a browser shows can send requests to a name that leads here; with the token it could do what it wants.

    Args:
        names: host names that are meant. Addresses always are.
        is_account: whether a text is a good token of a service account.
    """
    wanted = f"{_BEARER}{token}".encode()

    def check(headers: Mapping[str, str]) -> None:
        host = _PORT.sub("", headers.get("host", "")).strip("[]").lower()
        if host and host not in names and not _is_address(host):
            raise HttpError(421, "BadRequest", f"{host[:80]!r} is not a name of this node")
        given = headers.get("authorization", "").encode("latin-1", errors="replace")
        if not hmac.compare_digest(given, wanted) and not is_account(
            headers.get("authorization", "").removeprefix(_BEARER)
        ):
            raise HttpError(401, "Unauthorized", "Unauthorized", headers=(("WWW-Authenticate", "Bearer"),))

    return check


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
