"""The switch from HTTP to SPDY/3.1, and the choice of what is spoken within its streams.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/httpstream/httpstream.go`` (Handshake), ``spdy/upgrade.go``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.ops.routing import HttpError, Request

SPDY: Final = "SPDY/3.1"
_VERSION: Final = "X-Stream-Protocol-Version"
_ACCEPTED: Final = "X-Accepted-Stream-Protocol-Versions"


def asks_for(request: Request, protocol: str) -> bool:
    """Whether the client asks to switch to ``protocol``."""
    return request.headers.get("upgrade", "").lower() == protocol.lower()


def upgrade_required() -> HttpError:
    """The error for a request that has to switch protocols and does not ask to."""
    return HttpError(400, "BadRequest", "Upgrade request required")


def negotiated(request: Request, known: Sequence[str]) -> tuple[str, tuple[str, str]]:
    """The first protocol that the client names and we know, and the header that tells the client.

    Raises:
        HttpError: 403, none is known; 400, the client names none.
    """
    named = [each.strip() for each in request.headers.get(_VERSION.lower(), "").split(",") if each.strip()]
    if not named:
        raise HttpError(400, "BadRequest", f"unable to upgrade: {_VERSION} is required")
    chosen = next((each for each in named if each in known), "")
    if not chosen:
        problem = (
            "unable to upgrade: unable to negotiate protocol: "
            f"client supports {_listed(named)}, server accepts {_listed(known)}"
        )
        raise HttpError(403, "Forbidden", problem, headers=tuple((_ACCEPTED, each) for each in known))
    return chosen, (_VERSION, chosen)


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"
