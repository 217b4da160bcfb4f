"""The conditions under which an HTTP server serves a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from plugbay.values import dataclass

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The part of a request that comes before its body.

    Attributes:
        target: the path with the query, as it was sent.
        headers: keys in lower case.
    """

    method: str
    target: str
    headers: Mapping[str, str]


def _nothing(head: RequestHead) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions of one server.

    Attributes:
        tls: clients have to speak TLS; None for plain HTTP.
        check: looks at each request before its body is read, and raises `HttpError` to refuse it.
    """

    tls: ssl.SSLContext | None = None
    check: Callable[[RequestHead], None] = _nothing


FREE: Final = Access()
"""Plain HTTP for everybody who can connect: a unix socket's owner, or the readers of public pages."""
