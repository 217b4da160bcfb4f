"""The conditions under which an HTTP server serves a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl


def _nothing(headers: Mapping[str, str]) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions of one server.

    Attributes:
        tls: clients have to speak TLS; None for plain HTTP.
        check: looks at the headers of each request before its body is read, and raises `HttpError` to refuse it. Keys
            are in lower case.
    """

    tls: ssl.SSLContext | None = None
    check: Callable[[Mapping[str, str]], None] = _nothing


FREE: Final = Access()
"""Plain HTTP for everybody who can connect: a unix socket's owner, or the readers of public pages."""
