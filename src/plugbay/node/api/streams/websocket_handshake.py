"""The switch from HTTP to WebSocket, and the choice of a subprotocol.

Source: RFC 6455 section 4.2; Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/wsstream/conn.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wsproto.utilities import generate_accept_token

from plugbay.ops.routing import HttpError, Request

WEBSOCKET: Final = "websocket"
_KEY_BYTES: Final = 24

Headers = tuple[tuple[str, str], ...]


def accepted(request: Request, known: Sequence[str], *, otherwise: str = "") -> tuple[str, Headers]:
    """The first subprotocol of ``known`` that the client offers, and the headers of the answer.

    Args:
        otherwise: spoken with a client that offers none at all; empty refuses it.

    Raises:
        HttpError: 400, the client does not do what the handshake needs, or offers no subprotocol of ours.
    """
    offered = [each.strip() for each in request.headers.get("sec-websocket-protocol", "").split(",") if each.strip()]
    chosen = next((each for each in known if each in offered), "")
    key = request.headers.get("sec-websocket-key", "")
    if request.headers.get("sec-websocket-version") != "13" or len(key) != _KEY_BYTES:
        raise HttpError(400, "BadRequest", "the handshake of WebSocket needs version 13 and a key")
    headers = (("Sec-WebSocket-Accept", generate_accept_token(key.encode("latin-1")).decode()),)
    if chosen:
        return chosen, (*headers, ("Sec-WebSocket-Protocol", chosen))
    if otherwise and not offered:
        return otherwise, headers
    problem = f"none of the subprotocols is supported; those that are: {', '.join(known)}"
    raise HttpError(400, "BadRequest", problem)
